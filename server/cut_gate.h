// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/types/optional.h"
#include "server/push_header.h"
#include "weir/v1/server_control.pb.h"

namespace weir {

// An asynchronous cut of a checkpoint: which pushes are before it. A worker's later pushes say so
// themselves (cut, cut_sequence), and wait until the cut is taken or given up; the marks of all
// workers come with the request to take it. Thread-compatible: used under the store's lock.
class CutGate {
 public:
  using Mark = std::pair<WorkerId, uint32_t>;  // worker, group

  // True: the push is after a cut that is neither taken nor given up.
  bool Holds(const PushHeader& push) const;
  // True: neither taken nor given up.
  bool IsOpen(uint64_t cut) const { return cut > settled_; }

  // From now on everything beyond the marks waits. `cut` is open.
  void Begin(uint64_t cut, absl::Span<const v1::CutMark> marks);
  // The cut that is being taken, and what must be complete before it.
  absl::optional<uint64_t> under_way() const { return under_way_; }
  const absl::flat_hash_map<Mark, uint64_t>& marks() const { return marks_; }

  // It is taken or given up, and so are all before it.
  void Settle(uint64_t cut);

 private:
  uint64_t settled_ = 0;
  absl::optional<uint64_t> under_way_;
  absl::flat_hash_map<Mark, uint64_t> marks_;
};

}  // namespace weir
