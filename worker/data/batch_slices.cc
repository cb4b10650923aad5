// SPDX-License-Identifier: Apache-2.0
#include "worker/data/batch_slices.h"

#include <algorithm>

namespace weir {

BatchSlice PartOf(uint64_t size, uint64_t index, uint64_t parts) {
  const uint64_t each = size / parts;
  const uint64_t remainder = size % parts;
  BatchSlice part;
  part.first = index * each + std::min(index, remainder);
  part.end = part.first + each + (index < remainder ? 1 : 0);
  return part;
}

std::vector<JobInfo::Member> MembersAt(const std::vector<JobInfo::Member>& members,
                                       uint64_t steps) {
  std::vector<JobInfo::Member> counted;
  for (const JobInfo::Member& member : members) {
    if (member.first_step < steps) counted.push_back(member);
  }
  return counted.empty() ? members : counted;
}

BatchSlice MemberSlice(const BatchSlice& batch, uint64_t step,
                       const std::vector<JobInfo::Member>& members, uint32_t rank,
                       uint32_t replicas) {
  uint64_t parts = 0;
  uint64_t index = 0;
  bool counted = false;
  for (const JobInfo::Member& member : members) {
    if (member.first_step > step) continue;
    ++parts;
    if (member.rank < rank) ++index;
    if (member.rank == rank) counted = true;
  }
  BatchSlice slice{batch.epoch, batch.first, batch.first};
  if (!counted) return slice;
  const uint64_t size = batch.examples();
  const uint64_t all = parts * replicas;
  slice.first = batch.first + PartOf(size, index * replicas, all).first;
  slice.end = batch.first + PartOf(size, index * replicas + replicas - 1, all).end;
  return slice;
}

BatchSlice SyncSlice(const SyncData& data, uint64_t step,
                     const std::vector<JobInfo::Member>& members, uint32_t rank) {
  const uint64_t per_epoch = (data.train_examples + data.global_batch - 1) / data.global_batch;
  BatchSlice batch;
  batch.epoch = step / per_epoch;
  batch.first = step % per_epoch * data.global_batch;
  batch.end = batch.first + std::min(data.global_batch, data.train_examples - batch.first);
  return MemberSlice(batch, step, members, rank, data.replicas);
}

}  // namespace weir
