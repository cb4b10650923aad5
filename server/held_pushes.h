// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "server/push_message.h"

namespace weir {

// Pushes that have arrived and wait for their turn, in the order of their ids, which rise with
// arrival. No worker's take more memory than its credit. Thread-compatible: used under the store's
// lock.
class HeldPushes {
 public:
  explicit HeldPushes(uint64_t credit_bytes) : credit_bytes_(credit_bytes) {}

  bool empty() const { return pushes_.empty(); }
  const std::map<uint64_t, std::unique_ptr<PushMessage>>& by_id() const { return pushes_; }

  // Whether one more may be held. Errors: ResourceExhausted - its worker's credit is used up.
  absl::Status CheckCredit(const PushMessage& message) const;
  void Add(uint64_t id, std::unique_ptr<PushMessage> message);
  // The id is held.
  std::unique_ptr<PushMessage> Take(uint64_t id);

 private:
  const uint64_t credit_bytes_;
  std::map<uint64_t, std::unique_ptr<PushMessage>> pushes_;
  absl::flat_hash_map<WorkerId, uint64_t> bytes_;
};

}  // namespace weir
