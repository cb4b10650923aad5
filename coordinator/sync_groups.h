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

// Puts the marks of a cut between two steps of each sync group: those of its members that have not
// begun the newest step that another has begun finish it before the cut.
void AlignMarks(const v1::JobView& view, std::vector<v1::CutMark>& marks);

}  // namespace weir
