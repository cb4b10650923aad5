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
  Begin(step);
  before_ = false;
}

void LocalCollectives::BeginBefore(const Step& step) {
  Begin(step);
  before_ = true;
}

// A step that is repeated starts anew.
void LocalCollectives::Begin(const Step& step) {
  if (before_ && step.step == step_.step && step.attempt == step_.attempt) return;
  step_ = step;
  ordinal_ = 0;
  assembled_ = false;
  elder_.reset();
}

absl::Status LocalCollectives::Handle::Assemble() {
  // Without others there is nothing to learn. Which it is does not change within a step.
  if (owner_.step_.others == nullptr) return absl::OkStatus();
  return owner_.meeting_.Meet(
      replica_, "who takes part", nullptr,
      [&](absl::Span<const void* const>) { return owner_.AssembleForAll(); });
}

// A roll call, so that all count the same ones: their views may differ when one has just left.
absl::Status LocalCollectives::AssembleForAll() {
  if (assembled_ || step_.others == nullptr) return absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(const std::vector<Present> all,
                        step_.others->CallRoll({step_.step, ordinal_++}, step_.newcomer));
  const auto is_new = [](const Present& each) { return each.newcomer; };
  const auto elder = std::find_if_not(all.begin(), all.end(), is_new);
  if (elder != all.end() && std::any_of(all.begin(), all.end(), is_new)) {
    elder_ = static_cast<uint32_t>(elder - all.begin()) * meeting_.replicas();
  }
  ranks_.clear();
  for (const Present& each : all) ranks_.push_back(each.rank);
  const uint32_t rank = step_.first_id / meeting_.replicas();
  const auto before =
      std::count_if(ranks_.begin(), ranks_.end(), [&](uint32_t other) { return other < rank; });
  step_.first_index = static_cast<uint32_t>(before) * meeting_.replicas();
  step_.replicas_in_sync = static_cast<uint32_t>(ranks_.size()) * meeting_.replicas();
  assembled_ = true;
  return absl::OkStatus();
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
  if (call.op != ReduceOp::kBroadcast || call.source < step_.replicas_in_sync) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(Describe(call), ": the replicas in sync are 0 to ", step_.replicas_in_sync - 1));
}

// To the other processes: by the replica's id.
absl::Status LocalCollectives::RunWithOthers(CollectiveCall call, std::vector<std::byte>& data) {
  if (call.op == ReduceOp::kBroadcast) {
    const uint32_t replicas = meeting_.replicas();
    call.source = ranks_[call.source / replicas] * replicas + call.source % replicas;
  }
  std::vector<std::byte> result;
  WEIR_RETURN_IF_ERROR(step_.others->Run(call, {step_.step, ordinal_++}, data, result));
  data = std::move(result);
  return absl::OkStatus();
}

absl::Status LocalCollectives::RunForAll(absl::Span<const void* const> contributions) {
  CollectiveCall call = At(contributions[0]).call;
  WEIR_RETURN_IF_ERROR(CheckReduction(call.op, call.dtype));
  WEIR_RETURN_IF_ERROR(AssembleForAll());
  WEIR_RETURN_IF_ERROR(CheckSource(call));
  std::vector<std::byte> mine;
  if (call.op == ReduceOp::kGather) {
    mine = Gathered(contributions);
  } else if (call.op == ReduceOp::kBroadcast) {
    // Nothing, where the source is elsewhere.
    const uint32_t source = call.source - step_.first_index;
    if (source < contributions.size()) {
      const auto data = At(contributions[source]).data;
      mine.assign(data.begin(), data.end());
    }
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
  if (step_.others != nullptr) WEIR_RETURN_IF_ERROR(RunWithOthers(std::move(call), mine));
  for (const void* each : contributions) At(each).result = mine;
  return absl::OkStatus();
}

}  // namespace weir
