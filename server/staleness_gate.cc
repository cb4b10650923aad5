// SPDX-License-Identifier: Apache-2.0
#include "server/staleness_gate.h"

#include <algorithm>
#include <limits>

namespace weir {

StalenessGate::StalenessGate(uint64_t bound, absl::Span<const GroupPlan> groups) : bound_(bound) {
  for (size_t g = 1; g < groups.size(); ++g) {
    if (groups[g].chunks > 0) ++pushed_groups_;
  }
}

void StalenessGate::SetMembers(const MemberSet& members) {
  absl::erase_if(members_, [&](const auto& entry) { return members.Find(entry.first) == nullptr; });
  const uint64_t slowest_before = slowest();
  for (const MemberInfo& member : members.by_rank()) {
    const auto [place, is_new] = members_.try_emplace(member.worker);
    place->second.member = member;
    if (is_new) place->second.done = std::max(member.first_step, slowest_before);
  }
}

void StalenessGate::Reach(WorkerId worker, uint64_t step) {
  const auto found = members_.find(worker);
  if (found == members_.end() || step <= found->second.done) return;
  found->second.done = step;
  found->second.groups.clear();
}

void StalenessGate::Complete(WorkerId worker, uint32_t group, uint64_t step) {
  Reach(worker, step);
  const auto found = members_.find(worker);
  if (found == members_.end() || step != found->second.done) return;
  found->second.groups.insert(group);
  if (found->second.groups.size() == pushed_groups_) Reach(worker, step + 1);
}

void StalenessGate::Finish(WorkerId worker) {
  const auto found = members_.find(worker);
  if (found != members_.end()) found->second.finished = true;
}

bool StalenessGate::Admits(uint64_t step) const {
  return std::none_of(members_.begin(), members_.end(),
                      [&](const auto& entry) { return Delays(entry.second, step); });
}

uint64_t StalenessGate::slowest() const {
  uint64_t slowest = std::numeric_limits<uint64_t>::max();
  uint64_t furthest = 0;
  for (const auto& [worker, place] : members_) {
    furthest = std::max(furthest, place.done);
    if (!place.finished) slowest = std::min(slowest, place.done);
  }
  return std::min(slowest, furthest);
}

std::vector<MemberInfo> StalenessGate::WaitsFor(uint64_t step) const {
  std::vector<MemberInfo> slower;
  for (const auto& [worker, place] : members_) {
    if (Delays(place, step)) slower.push_back(place.member);
  }
  std::sort(slower.begin(), slower.end(),
            [](const MemberInfo& a, const MemberInfo& b) { return a.rank < b.rank; });
  return slower;
}

}  // namespace weir
