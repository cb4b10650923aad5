// SPDX-License-Identifier: Apache-2.0
#include "server/memory_budget.h"

#include "rpc/errors.h"

namespace weir {

absl::StatusOr<MemoryBudget::Reservation> MemoryBudget::Reserve(absl::string_view what,
                                                                uint64_t bytes) {
  {
    MutexLock lock(mutex_);
    if (limit_bytes_ > 0 &&
        (reserved_bytes_ > limit_bytes_ || bytes > limit_bytes_ - reserved_bytes_)) {
      return OutOfMemory(what, bytes, reserved_bytes_, limit_bytes_);
    }
    reserved_bytes_ += bytes;
  }
  // The pointer only has to be there; what counts is its end.
  return Reservation(this,
                     [budget = shared_from_this(), bytes](void*) { budget->GiveBack(bytes); });
}

uint64_t MemoryBudget::reserved_bytes() const {
  MutexLock lock(mutex_);
  return reserved_bytes_;
}

void MemoryBudget::GiveBack(uint64_t bytes) {
  MutexLock lock(mutex_);
  reserved_bytes_ -= bytes;
}

}  // namespace weir
