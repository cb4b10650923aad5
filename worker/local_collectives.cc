// SPDX-License-Identifier: Apache-2.0
#include "worker/local_collectives.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "worker/reduction.h"

namespace weir {
namespace {

// What a replica brings to a meeting of a collective.
struct Brought {
  const CollectiveCall& call;
  absl::Span<const std::byte> data;
  std::vector<std::byte>& result;
};

const Brought& At(const void* contribution) {
  return *static_cast<const Brought*>(contribution);
}

const char* NameOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "f32";
    case DType::kFloat64:
      return "f64";
    case DType::kInt32:
      return "i32";
    case DType::kInt64:
      return "i64";
    case DType::kBool:
      return "bool";
  }
  return "?";
}

std::string NameOf(const CollectiveCall& call) {
  switch (call.op) {
    case ReduceOp::kSum:
      return "AllReduce(SUM)";
    case ReduceOp::kMean:
      return "AllReduce(MEAN)";
    case ReduceOp::kMin:
      return "AllReduce(MIN)";
    case ReduceOp::kMax:
      return "AllReduce(MAX)";
    case ReduceOp::kFirst:
      return "AllReduce(FIRST)";
    case ReduceOp::kGather:
      return "AllGather";
    case ReduceOp::kBroadcast:
      return absl::StrCat("Broadcast(", call.source, ")");
  }
  return "?";
}

std::vector<std::byte> Gathered(absl::Span<const void* const> contributions) {
  std::vector<std::byte> blocks;
  for (const void* each : contributions) {
    const absl::Span<const std::byte> data = At(each).data;
    blocks.insert(blocks.end(), data.begin(), data.end());
  }
  return blocks;
}

}  // namespace

uint64_t CollectiveCall::bytes() const {
  uint64_t bytes = SizeOf(dtype);
  for (const uint64_t size : shape) bytes *= size;
  return bytes;
}

std::string Describe(const CollectiveCall& call) {
  const std::string name = call.name.empty() ? "" : absl::StrCat(" \"", call.name, "\"");
  return absl::StrCat(NameOf(call), name, " ", NameOf(call.dtype), "[",
                      absl::StrJoin(call.shape, ","), "]");
}

LocalCollectives::LocalCollectives(ReplicaMeeting& meeting) : meeting_(meeting) {
  for (uint32_t i = 0; i < meeting.replicas(); ++i) handles_.emplace_back(*this, i);
}

void LocalCollectives::BeginStep(const Step& step) {
  // A step that is repeated starts from the same number again.
  if (before_) ordinals_before_ = ordinal_;
  if (step.step != step_.step) ordinals_before_ = 0;
  step_ = step;
  before_ = false;
  ordinal_ = ordinals_before_;
}

void LocalCollectives::BeginBefore(const Step& step) {
  if (!before_ || step.step != step_.step) ordinal_ = 0;
  step_ = step;
  before_ = true;
}

absl::Status LocalCollectives::Handle::Run(const CollectiveCall& call,
                                           absl::Span<const std::byte> data,
                                           std::vector<std::byte>& result) {
  if (data.size() != call.bytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Describe(call), " is of ", call.bytes(), " bytes, but brings ", data.size()));
  }
  const Brought brought{call, data, result};
  return owner_.meeting_.Meet(
      replica_, Describe(call), &brought,
      [&](absl::Span<const void* const> contributions) { return owner_.RunForAll(contributions); });
}

absl::Status LocalCollectives::CheckSource(const CollectiveCall& call) const {
  const uint32_t end = step_.first_id + meeting_.replicas();
  const bool here = call.source >= step_.first_id && call.source < end;
  // Which replicas other processes have, they know together.
  if (call.op != ReduceOp::kBroadcast || here || step_.others != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(Describe(call), ": there is no replica ",
                                                 call.source, "; there are ", step_.first_id,
                                                 " to ", end - 1));
}

absl::Status LocalCollectives::RunForAll(absl::Span<const void* const> contributions) {
  CollectiveCall call = At(contributions[0]).call;
  WEIR_RETURN_IF_ERROR(CheckReduction(call.op, call.dtype));
  WEIR_RETURN_IF_ERROR(CheckSource(call));
  if (step_.others == nullptr && step_.replicas_in_sync != contributions.size()) {
    return absl::UnimplementedError(
        absl::StrCat(Describe(call), ": collectives between workers come with a later release; ",
                     "train with workers: 1, or in async"));
  }
  std::vector<std::byte> mine;
  if (call.op == ReduceOp::kGather) {
    mine = Gathered(contributions);
  } else if (call.op == ReduceOp::kBroadcast) {
    const uint32_t source = call.source - step_.first_id;
    const auto data = At(contributions[source < contributions.size() ? source : 0]).data;
    mine.assign(data.begin(), data.end());
  } else {
    std::vector<Contribution> parts;
    call.weight = 0;
    for (const void* each : contributions) {
      parts.push_back({At(each).data.data(), At(each).call.weight});
      call.weight += parts.back().weight;
    }
    mine.resize(call.bytes());
    Combine(call.op, call.dtype, call.bytes() / SizeOf(call.dtype), parts, mine.data());
  }
  const uint32_t ordinal = ordinal_++;
  if (step_.others != nullptr) {
    std::vector<std::byte> all;
    WEIR_RETURN_IF_ERROR(step_.others->Run(call, {step_.step, ordinal}, mine, all));
    mine = std::move(all);
  }
  for (const void* each : contributions) At(each).result = mine;
  return absl::OkStatus();
}

}  // namespace weir
