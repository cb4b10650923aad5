// SPDX-License-Identifier: Apache-2.0
// Who is in step with whom in `sync_group_size: k`: docs/regimes.md.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "rpc/worker_id.h"
#include "weir/v1/server_control.pb.h"
#include "weir/v1/view.pb.h"

namespace weir {

bool HasSyncGroups(const v1::JobSpec& spec);
// Of a full group.
uint32_t WorkersOfSyncGroup(const v1::JobSpec& spec);

// Puts all members into groups anew, by rank in order: before an attempt's first step. Returns one
// more than the highest group.
uint32_t AssignSyncGroups(v1::JobView& view);
// The group with the fewest members, for one that joins; none where all are full.
absl::optional<uint32_t> GroupWithRoom(const v1::JobView& view);
// 0 where it is no member.
uint32_t SyncGroupOf(const v1::JobView& view, WorkerId worker);
uint32_t SizeOfSyncGroup(const v1::JobView& view, uint32_t sync_group);
uint32_t NumSyncGroups(const v1::JobView& view);

// JobView.stop_step, and Member.stop_step of a sync group, before the last step is agreed on.
inline constexpr uint64_t kStopNotSettled = ~uint64_t{0};
// Those who are in step, and have not agreed on their last one: the number of the group, 0 in
// `sync`.
absl::optional<uint32_t> UnsettledStop(const v1::JobView& view);
// Of all who are in step in a job that stops, where they are several.
void UnsettleStop(v1::JobView& view);
void SettleStopOf(uint32_t sync_group, uint64_t stop_step, v1::JobView& view);
// Of those who are in the group already; 0: there is none.
uint64_t StopStepOf(const v1::JobView& view, uint32_t sync_group);
void ClearStopSteps(v1::JobView& view);

// Puts the marks of a cut between two steps of each sync group: those of its members that have not
// begun the newest step that another has begun finish it before the cut.
void AlignMarks(const v1::JobView& view, std::vector<v1::CutMark>& marks);

}  // namespace weir
