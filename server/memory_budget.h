// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/mutex.h"

namespace weir {

// How much memory jobs may plan to use: weights, slots, accumulators, and snapshots while they are
// saved. Thread-safe.
class MemoryBudget : public std::enable_shared_from_this<MemoryBudget> {
 public:
  // Given back when the last copy goes. Shared: a snapshot is copied, and may outlive its job.
  using Reservation = std::shared_ptr<void>;

  // limit_bytes 0: none.
  explicit MemoryBudget(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // Errors: ResourceExhausted - says for what, how much it needs, and how much is in use.
  absl::StatusOr<Reservation> Reserve(absl::string_view what, uint64_t bytes);
  uint64_t reserved_bytes() const;

 private:
  void GiveBack(uint64_t bytes);

  const uint64_t limit_bytes_;
  mutable Mutex mutex_;
  uint64_t reserved_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace weir
