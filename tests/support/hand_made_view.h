// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weir/v1/view.pb.h"
#include "weir/variable.h"

namespace weir {

// Views of a running job, made by hand in place of a coordinator.
struct HandMadeView {
  uint64_t run_id = 7;
  uint64_t version = 1;
  uint64_t attempt = 1;
  uint64_t generation = 1;
  v1::JobState state = v1::JOB_STATE_RUNNING;
  v1::Regime regime = v1::REGIME_ASYNC;
  v1::RegimeSpec regime_options;  // of the regimes that have some; `kind` is taken from `regime`
  bool deterministic = false;
  Declaration declaration;
  std::vector<uint64_t> workers;  // by rank; the first one initialises
  uint64_t first_step_of_last = 0;
  std::vector<v1::ServerInfo> servers;
  uint64_t shard_map_version = 1;
  uint64_t shard_bytes = 0;
  uint64_t chunk_bytes = 0;
  uint64_t cut = 0;

  v1::JobView Make() const;
  std::shared_ptr<const v1::JobView> MakeShared() const {
    return std::make_shared<const v1::JobView>(Make());
  }
};

v1::ServerInfo ServerNamed(const std::string& name, uint64_t incarnation);

// f32 parameters of the given sizes, named v0, v1, ..., of one group with plain SGD of learning
// rate 1.
Declaration SgdOver(const std::vector<uint64_t>& elements);

}  // namespace weir
