// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/buffer_pool.h"
#include "server/member_set.h"
#include "server/push_header.h"

namespace weir {

// The contributions of one sync step to one chunk, and their weighted sum. Thread-compatible:
// used under the chunk's lock.
class StepAccumulator {
 public:
  struct Options {
    BufferPool* pool = nullptr;  // must outlive the accumulator
    v1::DType dtype = v1::DTYPE_F32;
    uint64_t elements = 0;
    bool deterministic = false;  // keep contributions apart, and sum them in the order of ranks
    uint32_t sync_group = 0;     // whose steps these are
    uint64_t quorum = 0;         // so many contributions of members are enough; 0: those of all
  };
  struct Contribution {
    MemberInfo member;
    double weight = 0;
    uint64_t examples = 0;
    bool present = false;
  };
  struct Sum {
    BufferRef values;  // null: absent everywhere
    double scale = 1;  // turns the sum into the mean
    uint64_t examples = 0;
  };

  explicit StepAccumulator(const Options& options) : options_(options) {}

  bool empty() const { return entries_.empty(); }
  bool any_present() const;
  // The members that the step waits for: those that count there and have not contributed.
  std::vector<MemberInfo> Missing(const MemberSet& members, uint64_t step) const;
  // Whether it waits for this member and for nobody else.
  bool WaitsOnlyFor(WorkerId worker, const MemberSet& members, uint64_t step) const;
  // All that count there have contributed, or as many of them as are enough.
  bool IsComplete(const MemberSet& members, uint64_t step) const;

  // Errors: ResourceExhausted - no memory; nothing is counted.
  absl::Status Add(const Contribution& contribution, const ChunkValues& values);

  // The sum over all; the accumulator is empty after it. A sole contribution that carries all the
  // weight comes as it was sent, unscaled.
  Sum Take();

 private:
  struct Entry {
    Contribution contribution;
    BufferRef values{};  // deterministic: its own
  };

  bool Has(WorkerId worker) const;
  bool CountsIn(const MemberInfo& member, uint64_t step) const {
    return member.sync_group == options_.sync_group && member.first_step <= step;
  }
  bool WaitsFor(const MemberInfo& member, uint64_t step) const {
    return CountsIn(member, step) && !Has(member.worker);
  }
  // Contributions that the step still waits for; never more than there are members to make them.
  size_t Lacking(const MemberSet& members, uint64_t step) const;
  absl::StatusOr<BufferRef> Copy(const ChunkValues& values) const;
  void Reset();

  const Options options_;
  std::vector<Entry> entries_;
  BufferRef sum_;  // not deterministic: of weight * gradient; of one contribution: unweighted
  double sole_weight_ = 0;  // of the contribution that sum_ holds unweighted; 0: sum_ is weighted
};

// sum = sum_weight * sum + weight * values, in the dtype's arithmetic; `values` need not be
// aligned.
void AddWeighted(v1::DType dtype, double sum_weight, double weight, const std::byte* values,
                 size_t count, std::byte* sum);

}  // namespace weir
