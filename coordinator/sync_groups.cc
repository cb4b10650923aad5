// SPDX-License-Identifier: Apache-2.0
#include "coordinator/sync_groups.h"

#include <algorithm>
#include <map>
#include <utility>

#include "rpc/regime.h"

namespace weir {
namespace {

std::map<uint32_t, uint32_t> Sizes(const v1::JobView& view) {
  std::map<uint32_t, uint32_t> sizes;
  for (const v1::Member& member : view.members()) ++sizes[member.sync_group()];
  return sizes;
}

// Of a worker that has pushed nothing yet.
uint64_t FirstGroupStep(const v1::JobView& view, const v1::CutMark& mark) {
  const auto& resumed = view.resume().group_steps();
  const int group = static_cast<int>(mark.group());
  const uint64_t first = group < resumed.size() ? resumed.Get(group) : 0;
  for (const v1::Member& member : view.members()) {
    if (member.worker() == mark.worker()) {
      return first + member.first_step() - view.resume().step();
    }
  }
  return first;
}

}  // namespace

bool HasSyncGroups(const v1::JobSpec& spec) {
  return spec.regime().kind() == v1::REGIME_SYNC_GROUPS;
}

uint32_t WorkersOfSyncGroup(const v1::JobSpec& spec) {
  const uint64_t replicas = std::max<uint64_t>(1, spec.replicas_per_worker());
  return static_cast<uint32_t>(std::max<uint64_t>(1, spec.regime().sync_group_size() / replicas));
}

uint32_t AssignSyncGroups(v1::JobView& view) {
  const uint32_t size = WorkersOfSyncGroup(view.spec());
  for (int i = 0; i < view.members_size(); ++i) {
    view.mutable_members(i)->set_sync_group(static_cast<uint32_t>(i) / size);
  }
  return (static_cast<uint32_t>(view.members_size()) + size - 1) / size;
}

absl::optional<uint32_t> GroupWithRoom(const v1::JobView& view) {
  absl::optional<uint32_t> smallest;
  const std::map<uint32_t, uint32_t> sizes = Sizes(view);
  for (const auto& [group, size] : sizes) {
    if (size >= WorkersOfSyncGroup(view.spec())) continue;
    if (!smallest || size < sizes.at(*smallest)) smallest = group;
  }
  return smallest;
}

uint32_t SyncGroupOf(const v1::JobView& view, WorkerId worker) {
  for (const v1::Member& member : view.members()) {
    if (WorkerId{member.worker()} == worker) return member.sync_group();
  }
  return 0;
}

uint32_t SizeOfSyncGroup(const v1::JobView& view, uint32_t sync_group) {
  const std::map<uint32_t, uint32_t> sizes = Sizes(view);
  const auto found = sizes.find(sync_group);
  return found == sizes.end() ? 0 : found->second;
}

uint32_t NumSyncGroups(const v1::JobView& view) {
  return static_cast<uint32_t>(Sizes(view).size());
}

absl::optional<uint32_t> UnsettledStop(const v1::JobView& view) {
  if (view.stop_step() == kStopNotSettled) return 0;
  for (const v1::Member& member : view.members()) {
    if (member.stop_step() == kStopNotSettled) return member.sync_group();
  }
  return absl::nullopt;
}

void UnsettleStop(v1::JobView& view) {
  if (IsSync(view.spec())) view.set_stop_step(kStopNotSettled);
  if (!HasSyncGroups(view.spec())) return;
  for (const auto& [sync_group, size] : Sizes(view)) {
    if (size > 1) SettleStopOf(sync_group, kStopNotSettled, view);
  }
}

void SettleStopOf(uint32_t sync_group, uint64_t stop_step, v1::JobView& view) {
  if (!HasSyncGroups(view.spec())) {
    view.set_stop_step(stop_step);
    return;
  }
  for (v1::Member& member : *view.mutable_members()) {
    if (member.sync_group() == sync_group) member.set_stop_step(stop_step);
  }
}

uint64_t StopStepOf(const v1::JobView& view, uint32_t sync_group) {
  for (const v1::Member& member : view.members()) {
    if (member.sync_group() == sync_group) return member.stop_step();
  }
  return 0;
}

void ClearStopSteps(v1::JobView& view) {
  view.clear_stop_step();
  for (v1::Member& member : *view.mutable_members()) member.clear_stop_step();
}

void AlignMarks(const v1::JobView& view, std::vector<v1::CutMark>& marks) {
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> newest;  // by sync group and group
  for (v1::CutMark& mark : marks) {
    if (mark.group() == 0) continue;
    if (mark.next_group_step() == 0) mark.set_next_group_step(FirstGroupStep(view, mark));
    uint64_t& step = newest[{SyncGroupOf(view, WorkerId{mark.worker()}), mark.group()}];
    step = std::max(step, mark.next_group_step());
  }
  for (v1::CutMark& mark : marks) {
    if (mark.group() == 0) continue;
    const uint64_t step = newest.at({SyncGroupOf(view, WorkerId{mark.worker()}), mark.group()});
    mark.set_last_sequence(mark.last_sequence() + step - mark.next_group_step());
    mark.set_next_group_step(step);
  }
}

}  // namespace weir
