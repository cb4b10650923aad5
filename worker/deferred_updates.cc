// SPDX-License-Identifier: Apache-2.0
#include "worker/deferred_updates.h"

#include <cstring>

namespace weir {

void DeferredUpdates::Start(GroupUpdates& updates, uint32_t group,
                            const std::vector<PushItem>& pushed, const Gradients& gradients,
                            double weight) {
  UnderWay& started = under_way_.emplace_back();
  started.group = group;
  started.gradients = gradients;
  started.pushed = pushed;
  for (const PushItem& item : pushed) {
    const PullItem at = variables_.StorageOf(item.variable);
    torch::Tensor& buffer = arriving_[item.variable];
    const auto bytes = static_cast<int64_t>(at.bytes);
    if (!buffer.defined() || buffer.numel() != bytes) buffer = torch::empty({bytes}, torch::kUInt8);
    // As they are: not every update answers with new ones (weir-worker --check).
    if (bytes > 0) std::memcpy(buffer.data_ptr(), at.data, at.bytes);
    started.arriving.push_back({item.variable, buffer.data_ptr(), at.bytes});
  }
  started.update = updates.StartUpdate(group, started.pushed, started.arriving, weight);
  // It was made before: its weights have landed.
  if (started.update == nullptr) under_way_.pop_back();
}

absl::Status DeferredUpdates::Settle(uint32_t group) {
  return SettleIf(false, group);
}

absl::Status DeferredUpdates::Settle() {
  return SettleIf(true, 0);
}

absl::Status DeferredUpdates::SettleIf(bool all, uint32_t group) {
  absl::Status first;
  for (auto each = under_way_.begin(); each != under_way_.end();) {
    if (!all && each->group != group) {
      ++each;
      continue;
    }
    const absl::Status status = each->update->Wait();
    if (status.ok()) {
      for (const PullItem& item : each->arriving) {
        if (item.bytes == 0) continue;
        std::memcpy(variables_.StorageOf(item.variable).data, item.data, item.bytes);
      }
      variables_.Land(each->arriving);
    } else if (first.ok()) {
      first = status;
    }
    each = under_way_.erase(each);
  }
  return first;
}

}  // namespace weir
