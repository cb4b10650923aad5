// SPDX-License-Identifier: Apache-2.0
#include "server/group_collectives.h"

#include <iterator>
#include <utility>

namespace weir {

GroupCollectives::GroupCollectives(CollectiveTable::Options options)
    : options_(std::move(options)) {
  tables_.emplace(0, CollectiveTable::Create(options_));
}

std::shared_ptr<CollectiveTable> GroupCollectives::Of(WorkerId worker) const {
  const MemberInfo* const member = members_->Find(worker);
  return tables_.at(member == nullptr ? 0 : member->sync_group);
}

void GroupCollectives::SetMembers(std::shared_ptr<const MemberSet> members, uint64_t generation,
                                  CollectiveTable::Effects& effects) {
  members_ = std::move(members);
  for (const MemberInfo& member : members_->by_rank()) {
    std::shared_ptr<CollectiveTable>& table = tables_[member.sync_group];
    if (table == nullptr) table = CollectiveTable::Create(options_);
  }
  for (auto it = tables_.begin(); it != tables_.end();) {
    auto group = std::make_shared<const MemberSet>(members_->OfSyncGroup(it->first));
    // The number of a group that is gone does not come again.
    const bool gone = group->empty() && it->first != 0;
    it->second->SetMembers(std::move(group), generation, effects);
    it = gone ? tables_.erase(it) : std::next(it);
  }
}

void GroupCollectives::End(const absl::Status& why, CollectiveTable::Effects& effects) {
  for (const auto& [sync_group, table] : tables_) table->End(why, effects);
}

}  // namespace weir
