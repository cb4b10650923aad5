// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "worker/worker_input.h"

namespace weir {

class ReadAhead;

// Input from a dataset: each step's slice is divided among the replicas, the remainder to the
// first. Batches are read when they are asked for, or, with `ahead`, on a thread of each pipeline
// while the steps before them run: a guess that was wrong costs time only. Used from one
// thread.
class DatasetInput final : public WorkerInput {
 public:
  // A reader for each pipeline of `place`.
  DatasetInput(std::vector<std::unique_ptr<SliceReader>> readers, const PipelinePlace& place,
               uint32_t ahead = 0);
  ~DatasetInput() override;

  absl::StatusOr<std::vector<ReplicaBatch>> Take(const InputRequest& request) override;
  uint32_t ahead() const override { return ahead_; }

 private:
  const PipelinePlace place_;
  const uint32_t ahead_;
  std::vector<std::unique_ptr<SliceReader>> readers_;
  std::vector<std::unique_ptr<ReadAhead>> reading_;  // by pipeline; empty: none reads ahead
};

}  // namespace weir
