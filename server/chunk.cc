// SPDX-License-Identifier: Apache-2.0
#include "server/chunk.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/optimizer/schedule.h"

namespace weir {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kStaggeredFrom = 4096;

absl::Status NoMemory(const VariablePlan& variable, uint64_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the system has no ", bytes, " bytes for a chunk of '", variable.name, "'"));
}

void CopyOut(const ChunkValues& values, uint64_t elements, size_t element_bytes, std::byte* out) {
  ForEachRun(*values.payload, values.offset, elements, element_bytes,
             [&](const std::byte* data, size_t first, size_t count) {
               std::memcpy(out + first * element_bytes, data, count * element_bytes);
             });
}

}  // namespace

size_t SlotStrideBytes(uint64_t weights_bytes) {
  const size_t lines = (weights_bytes + kLine - 1) / kLine;
  return (weights_bytes < kStaggeredFrom ? lines : lines | 1) * kLine;
}

bool Chunk::initialised() const {
  MutexLock lock(mutex_);
  return static_cast<bool>(weights_);
}

Chunk::Reading Chunk::Read() const {
  MutexLock lock(mutex_);
  return {.version = version_, .examples = examples_, .weights = weights_};
}

ChunkSnapshot Chunk::Snapshot() const {
  ChunkSnapshot snapshot;
  MutexLock lock(mutex_);
  snapshot.version = version_;
  snapshot.examples = examples_;
  snapshot.initialised = static_cast<bool>(weights_);
  snapshot.old = old_;
  snapshot.weights = weights_;
  snapshot.slots = slots_;
  if (slots_) {
    snapshot.num_slots = static_cast<uint32_t>(traits_.variable->rule->num_slots());
    snapshot.slot_stride_bytes = SlotStrideBytes(bytes());
  }
  return snapshot;
}

absl::StatusOr<bool> Chunk::Assign(const ChunkValues& values, uint64_t view_version) {
  BufferRef fresh = traits_.pool->Allocate(bytes());
  if (!fresh) return NoMemory(*traits_.variable, bytes());
  CopyOut(values, elements_, traits_.variable->element_bytes, fresh.mutable_data());
  MutexLock lock(mutex_);
  const bool untouched =
      version_ == 0 && examples_ == 0 && first_group_step_ == 0 &&
      std::all_of(places_.begin(), places_.end(), [](const std::unique_ptr<GroupPlace>& place) {
        return place->group_step == 0 && place->accumulator.empty();
      });
  const bool first = !weights_;
  if (first || (untouched && view_version >= assigned_in_)) {
    std::swap(weights_, fresh);
    assigned_in_ = view_version;
  }
  return first;
}

absl::Status Chunk::Load(const SavedChunk& saved) {
  const auto& [version, examples, weights, slots] = saved;
  const VariablePlan& variable = *traits_.variable;
  const size_t num_slots = variable.rule == nullptr ? 0 : variable.rule->num_slots();
  if (weights.size() != bytes() || (!slots.empty() && slots.size() != num_slots * bytes())) {
    return absl::DataLossError(absl::StrCat(
        "a saved chunk of '", variable.name, "' has ", weights.size(), " bytes of weights and ",
        slots.size(), " of slots; expected ", bytes(), " and ", num_slots * bytes()));
  }
  const size_t stride = SlotStrideBytes(bytes());
  BufferRef fresh = traits_.pool->Allocate(bytes());
  BufferRef fresh_slots;
  if (!slots.empty()) fresh_slots = traits_.pool->Allocate(num_slots * stride);
  if (!fresh || (!slots.empty() && !fresh_slots)) return NoMemory(variable, bytes());
  std::memcpy(fresh.mutable_data(), weights.data(), weights.size());
  for (size_t k = 0; k < num_slots && !slots.empty(); ++k) {
    std::memcpy(fresh_slots.mutable_data() + k * stride, slots.data() + k * bytes(), bytes());
  }
  MutexLock lock(mutex_);
  version_ = version;
  examples_ = examples;
  std::swap(weights_, fresh);
  std::swap(slots_, fresh_slots);
  return absl::OkStatus();
}

void Chunk::StartAt(uint64_t group_step) {
  MutexLock lock(mutex_);
  first_group_step_ = group_step;
  places_.clear();
}

absl::StatusOr<ChunkOutcome> Chunk::Apply(const PushHeader& push, const ChunkValues& values,
                                          SequenceTracker& tracker) {
  MutexLock lock(mutex_);
  ChunkOutcome outcome{.staleness = StalenessOf(values)};
  outcome.repeated = tracker.Counted(push.sequence, index_);
  if (outcome.repeated) return outcome;
  if (values.payload != nullptr) WEIR_RETURN_IF_ERROR(UpdateFrom(push, values));
  examples_ += push.examples;
  outcome.completes = tracker.Count(push.sequence, index_);
  return outcome;
}

uint64_t Chunk::StalenessOf(const ChunkValues& values) const {
  return values.have_version == 0 || values.have_version > version_
             ? 0
             : version_ - values.have_version;
}

// The rate is scaled and not the gradient, of which Adam would not notice.
double Chunk::RateScaleOf(const PushHeader& push, const ChunkValues& values) const {
  uint64_t parts = 1;
  if (traits_.rate_scale == v1::RATE_SCALE_WORKERS) {
    parts = traits_.members->Get()->by_rank().size();
  } else if (traits_.rate_scale == v1::RATE_SCALE_STALENESS) {
    parts = StalenessOf(values);
  }
  return push.rate_scale / static_cast<double>(std::max<uint64_t>(1, parts));
}

absl::Status Chunk::UpdateFrom(const PushHeader& push, const ChunkValues& values) {
  WEIR_ASSIGN_OR_RETURN(Spare spare, PrepareUpdate());
  const UpdateRule& rule = *traits_.variable->rule;
  Update(RateScaleOf(push, values), push.examples, /*gradient_scale=*/1, std::move(spare),
         [&](const UpdateContext& context, const ChunkSpan& span) {
           ForEachRun(*values.payload, values.offset, elements_, traits_.variable->element_bytes,
                      [&](const std::byte* data, size_t first, size_t count) {
                        rule.Apply(context, data, first, count, span);
                      });
         });
  return absl::OkStatus();
}

absl::Status Chunk::EnsureSlots() {
  const UpdateRule& rule = *traits_.variable->rule;
  if (rule.num_slots() == 0 || slots_) return absl::OkStatus();
  const size_t stride = SlotStrideBytes(bytes());
  BufferRef fresh = traits_.pool->Allocate(rule.num_slots() * stride);
  if (!fresh) return NoMemory(*traits_.variable, rule.num_slots() * stride);
  rule.InitialiseSlots(fresh.mutable_data(), stride, elements_);
  slots_ = std::move(fresh);
  return absl::OkStatus();
}

// Everything that can fail about an update. Under the lock nobody can take a new reference, so a
// buffer that is unique now stays so until the update is done.
absl::StatusOr<Chunk::Spare> Chunk::PrepareUpdate() {
  WEIR_RETURN_IF_ERROR(EnsureSlots());
  Spare spare;
  if (!weights_.unique()) {
    spare.weights = traits_.pool->Allocate(bytes());
    if (!spare.weights) return NoMemory(*traits_.variable, bytes());
  }
  if (slots_ && !slots_.unique()) {
    spare.slots = traits_.pool->Allocate(slots_.size());
    if (!spare.slots) return NoMemory(*traits_.variable, slots_.size());
  }
  return spare;
}

void Chunk::Update(double rate_scale, uint64_t examples, double gradient_scale, Spare spare,
                   Feed feed) {
  const ChunkSpan span{
      .weights_in = weights_.data(),
      .weights_out = spare.weights ? spare.weights.mutable_data() : weights_.mutable_data(),
      .slots_in = slots_.data(),
      .slots_out = spare.slots ? spare.slots.mutable_data() : slots_.mutable_data(),
      .slot_stride_bytes = SlotStrideBytes(bytes())};
  const UpdateContext context{
      .learning_rate = LearningRate(*traits_.variable->schedule, examples_, examples) * rate_scale,
      .updates_before = version_,
      .gradient_scale = gradient_scale};
  feed(context, span);
  if (spare.weights) weights_ = std::move(spare.weights);
  if (spare.slots) slots_ = std::move(spare.slots);
  ++version_;
}

}  // namespace weir
