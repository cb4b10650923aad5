// SPDX-License-Identifier: Apache-2.0
#include "server/held_pushes.h"

#include <utility>

#include "rpc/errors.h"

namespace weir {

absl::Status HeldPushes::CheckCredit(const PushMessage& message) const {
  const auto held = bytes_.find(message.header.worker);
  const uint64_t bytes = held == bytes_.end() ? 0 : held->second;
  if (bytes + message.payload.size() <= credit_bytes_) return absl::OkStatus();
  return OutOfCredit(bytes, credit_bytes_);
}

void HeldPushes::Add(uint64_t id, std::unique_ptr<PushMessage> message) {
  bytes_[message->header.worker] += message->payload.size();
  pushes_[id] = std::move(message);
}

std::unique_ptr<PushMessage> HeldPushes::Take(uint64_t id) {
  const auto found = pushes_.find(id);
  std::unique_ptr<PushMessage> message = std::move(found->second);
  pushes_.erase(found);
  uint64_t& bytes = bytes_[message->header.worker];
  bytes -= message->payload.size();
  if (bytes == 0) bytes_.erase(message->header.worker);
  return message;
}

}  // namespace weir
