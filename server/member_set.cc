// SPDX-License-Identifier: Apache-2.0
#include "server/member_set.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace weir {

std::string NameOf(const MemberInfo& member) {
  return absl::StrCat("rank ", member.rank, " (worker ",
                      absl::Hex(static_cast<uint64_t>(member.worker), absl::kZeroPad16), ")");
}

std::string NamesOf(absl::Span<const MemberInfo> members) {
  return absl::StrJoin(members, ", ", [](std::string* out, const MemberInfo& member) {
    out->append(NameOf(member));
  });
}

MemberSet::MemberSet(const google::protobuf::RepeatedPtrField<v1::Member>& members) {
  members_.reserve(members.size());
  for (const v1::Member& member : members) {
    members_.push_back({.rank = member.rank(),
                        .worker = static_cast<WorkerId>(member.worker()),
                        .first_step = member.first_step(),
                        .sync_group = member.sync_group()});
  }
  std::stable_sort(members_.begin(), members_.end(),
                   [](const MemberInfo& a, const MemberInfo& b) { return a.rank < b.rank; });
}

std::map<uint32_t, uint64_t> MemberSet::first_steps() const {
  std::map<uint32_t, uint64_t> steps;
  for (const MemberInfo& member : members_) {
    const auto found = steps.try_emplace(member.sync_group, member.first_step).first;
    found->second = std::min(found->second, member.first_step);
  }
  return steps;
}

const MemberInfo* MemberSet::Find(WorkerId worker) const {
  const auto found = std::find_if(members_.begin(), members_.end(), [&](const MemberInfo& member) {
    return member.worker == worker;
  });
  return found == members_.end() ? nullptr : &*found;
}

MemberSet MemberSet::OfSyncGroup(uint32_t sync_group) const {
  MemberSet group;
  for (const MemberInfo& member : members_) {
    if (member.sync_group == sync_group) group.members_.push_back(member);
  }
  return group;
}

}  // namespace weir
