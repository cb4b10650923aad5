// SPDX-License-Identifier: Apache-2.0
#include "server/meeting.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rpc/collective_text.h"
#include "server/state_aggregation.h"

namespace weir {
namespace {

using ByRank = std::vector<const Meeting::Contribution*>;

ByRank InOrderOfRanks(const Meeting& meeting) {
  ByRank by_rank;
  for (const Meeting::Contribution& contribution : meeting.contributions) {
    by_rank.push_back(&contribution);
  }
  std::sort(by_rank.begin(), by_rank.end(),
            [](const auto* a, const auto* b) { return a->member.rank < b->member.rank; });
  return by_rank;
}

v1::Aggregation AggregationOf(v1::ReduceOp op) {
  switch (op) {
    case v1::REDUCE_OP_SUM:
      return v1::AGGREGATION_SUM;
    case v1::REDUCE_OP_MEAN:
      return v1::AGGREGATION_MEAN;
    case v1::REDUCE_OP_MIN:
      return v1::AGGREGATION_MIN;
    case v1::REDUCE_OP_MAX:
      return v1::AGGREGATION_MAX;
    default:
      return v1::AGGREGATION_FIRST;
  }
}

// What weighs nothing in a mean does not count at all, also where it is not finite.
ByRank WithWeight(const ByRank& by_rank, v1::ReduceOp op) {
  if (op != v1::REDUCE_OP_MEAN) return by_rank;
  ByRank weighty;
  for (const auto* contribution : by_rank) {
    if (contribution->weight > 0) weighty.push_back(contribution);
  }
  return weighty.empty() ? by_rank : weighty;
}

absl::StatusOr<BufferRef> Reduced(const ReduceCall& call, const ByRank& all, BufferPool& pool) {
  const ByRank by_rank = WithWeight(all, call.collective.op());
  if (by_rank.size() == 1 || call.collective.op() == v1::REDUCE_OP_FIRST) {
    return by_rank.front()->values;
  }
  std::vector<StateValue> values;
  for (const auto* contribution : by_rank) {
    values.push_back({contribution->values.data(), contribution->weight});
  }
  BufferRef sum = pool.Allocate(call.bytes());
  if (!sum) return absl::ResourceExhaustedError("the system has no memory for a collective");
  AggregateState(AggregationOf(call.collective.op()), call.collective.dtype(), values,
                 /*last=*/0, call.count, sum.mutable_data());
  return sum;
}

absl::StatusOr<BufferRef> FromSource(const ReduceCall& call, const ByRank& by_rank) {
  for (const auto* contribution : by_rank) {
    if (call.IsSource(contribution->member)) return contribution->values;
  }
  std::vector<MemberInfo> members;
  for (const auto* contribution : by_rank) members.push_back(contribution->member);
  return absl::InvalidArgumentError(
      absl::StrCat(PlaceText(call.step, call.ordinal), ", ", TextOf(call.collective), ": replica ",
                   call.collective.source(), " is none of those of ", NamesOf(members)));
}

}  // namespace

absl::StatusOr<ReduceResult> MeetingResult::Reply() const {
  if (!status.ok()) return status;
  ReduceResult reply;
  reply.header = header;
  for (BufferRef value : values) {
    const std::byte* const data = value.data();
    const size_t size = value.size();
    reply.payload.Append(data, size, value.Detach(), &BufferRef::ReleaseDetached);
  }
  return reply;
}

const Meeting::Contribution* Meeting::Find(WorkerId worker) const {
  const auto found =
      std::find_if(contributions.begin(), contributions.end(),
                   [&](const Contribution& one) { return one.member.worker == worker; });
  return found == contributions.end() ? nullptr : &*found;
}

Meeting::Contribution* Meeting::Find(WorkerId worker) {
  return const_cast<Contribution*>(std::as_const(*this).Find(worker));
}

std::vector<MemberInfo> Meeting::Missing(const MemberSet& members) const {
  std::vector<MemberInfo> missing;
  for (const MemberInfo& member : members.by_rank()) {
    if (member.first_step > call.step) continue;
    const Contribution* const contribution = Find(member.worker);
    if (contribution == nullptr || !contribution->is_here) missing.push_back(member);
  }
  return missing;
}

std::shared_ptr<const MeetingResult> Combine(const Meeting& meeting, uint64_t payload_bytes,
                                             BufferPool& pool) {
  const ReduceCall& call = meeting.call;
  const ByRank by_rank = InOrderOfRanks(meeting);
  auto result = std::make_shared<MeetingResult>();
  if (call.gathers()) {
    for (const auto* contribution : by_rank) result->values.push_back(contribution->values);
  } else {
    absl::StatusOr<BufferRef> value = call.collective.op() == v1::REDUCE_OP_BROADCAST
                                          ? FromSource(call, by_rank)
                                          : Reduced(call, by_rank, pool);
    result->status = value.status();
    if (value.ok()) result->values.push_back(*std::move(value));
  }
  const uint64_t blocks = call.gathers() ? by_rank.size() * call.collective.replicas() : 1;
  result->header.set_generation(meeting.generation);
  result->header.set_members(static_cast<uint32_t>(by_rank.size()));
  result->header.set_piece_elements(
      std::max<uint64_t>(1, payload_bytes / (blocks * call.element_bytes)));
  double weight = 0;
  for (const auto* contribution : by_rank) weight += contribution->weight;
  result->header.set_weight(weight);
  return result;
}

}  // namespace weir
