// SPDX-License-Identifier: Apache-2.0
#include "server/step_accumulator.h"

#include <algorithm>
#include <cstring>

#include "common/status_macros.h"
#include "proto/dtype.h"

namespace weir {
namespace {

template <typename T>
void AddWeightedAs(double sum_weight, double weight, const std::byte* values, size_t count,
                   std::byte* sum) {
  const T a = static_cast<T>(sum_weight);
  const T b = static_cast<T>(weight);
  for (size_t i = 0; i < count; ++i) {
    T s;
    T v;
    std::memcpy(&s, sum + i * sizeof(T), sizeof(T));
    std::memcpy(&v, values + i * sizeof(T), sizeof(T));
    s = a * s + b * v;
    std::memcpy(sum + i * sizeof(T), &s, sizeof(T));
  }
}

}  // namespace

void AddWeighted(v1::DType dtype, double sum_weight, double weight, const std::byte* values,
                 size_t count, std::byte* sum) {
  if (dtype == v1::DTYPE_F64) {
    AddWeightedAs<double>(sum_weight, weight, values, count, sum);
  } else {
    AddWeightedAs<float>(sum_weight, weight, values, count, sum);
  }
}

bool StepAccumulator::any_present() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.contribution.present; });
}

bool StepAccumulator::Has(WorkerId worker) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.contribution.member.worker == worker;
  });
}

std::vector<MemberInfo> StepAccumulator::Missing(const MemberSet& members, uint64_t step) const {
  std::vector<MemberInfo> missing;
  for (const MemberInfo& member : members.by_rank()) {
    if (WaitsFor(member, step)) missing.push_back(member);
  }
  return missing;
}

bool StepAccumulator::WaitsOnlyFor(WorkerId worker, const MemberSet& members, uint64_t step) const {
  const MemberInfo* const member = members.Find(worker);
  return member != nullptr && WaitsFor(*member, step) && Lacking(members, step) == 1;
}

// Those who have left may have contributed too: their contributions stay, and do not count here.
size_t StepAccumulator::Lacking(const MemberSet& members, uint64_t step) const {
  size_t counting = 0;
  size_t missing = 0;
  for (const MemberInfo& member : members.by_rank()) {
    if (!CountsIn(member, step)) continue;
    ++counting;
    if (!Has(member.worker)) ++missing;
  }
  const size_t spare =
      options_.quorum == 0 || options_.quorum >= counting ? 0 : counting - options_.quorum;
  return missing - std::min(missing, spare);
}

bool StepAccumulator::IsComplete(const MemberSet& members, uint64_t step) const {
  return !entries_.empty() && Lacking(members, step) == 0;
}

absl::StatusOr<BufferRef> StepAccumulator::Copy(const ChunkValues& values) const {
  const size_t element_bytes = ElementBytes(options_.dtype);
  BufferRef copy = options_.pool->Allocate(options_.elements * element_bytes);
  if (!copy) return absl::ResourceExhaustedError("the system has no memory for a contribution");
  ForEachRun(*values.payload, values.offset, options_.elements, element_bytes,
             [&](const std::byte* data, size_t first, size_t count) {
               std::memcpy(copy.mutable_data() + first * element_bytes, data,
                           count * element_bytes);
             });
  return copy;
}

absl::Status StepAccumulator::Add(const Contribution& contribution, const ChunkValues& values) {
  Entry entry{.contribution = contribution};
  if (contribution.present && options_.deterministic) {
    WEIR_ASSIGN_OR_RETURN(entry.values, Copy(values));
  } else if (contribution.present && !sum_) {
    WEIR_ASSIGN_OR_RETURN(sum_, Copy(values));
    sole_weight_ = contribution.weight;
  } else if (contribution.present) {
    const double sum_weight = sole_weight_ == 0 ? 1 : sole_weight_;
    const size_t element_bytes = ElementBytes(options_.dtype);
    ForEachRun(*values.payload, values.offset, options_.elements, element_bytes,
               [&](const std::byte* data, size_t first, size_t count) {
                 AddWeighted(options_.dtype, sum_weight, contribution.weight, data, count,
                             sum_.mutable_data() + first * element_bytes);
               });
    sole_weight_ = 0;
  }
  entries_.push_back(std::move(entry));
  return absl::OkStatus();
}

StepAccumulator::Sum StepAccumulator::Take() {
  Sum sum;
  double total_weight = 0;
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return a.contribution.member.rank < b.contribution.member.rank;
  });
  double sole_weight = sole_weight_;
  sum.values = std::move(sum_);
  for (Entry& entry : entries_) {
    total_weight += entry.contribution.weight;
    sum.examples += entry.contribution.examples;
    if (!entry.values) continue;
    if (!sum.values) {
      sum.values = std::move(entry.values);
      sole_weight = entry.contribution.weight;
      continue;
    }
    AddWeighted(options_.dtype, sole_weight == 0 ? 1 : sole_weight, entry.contribution.weight,
                entry.values.data(), options_.elements, sum.values.mutable_data());
    sole_weight = 0;
  }
  if (sole_weight == 0) {
    sum.scale = 1 / total_weight;
  } else if (sole_weight != total_weight) {
    sum.scale = sole_weight / total_weight;
  }
  Reset();
  return sum;
}

void StepAccumulator::Reset() {
  entries_.clear();
  sum_ = BufferRef();
  sole_weight_ = 0;
}

}  // namespace weir
