// SPDX-License-Identifier: Apache-2.0
#include "worker/evaluation.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "rpc/regime.h"
#include "worker/data/batch_slices.h"

namespace weir {
namespace {

constexpr uint64_t kBatch = 250;
constexpr char kExamples[] = "examples";

// The replicas' own state, put back on destruction.
class KeptState {
 public:
  explicit KeptState(ReplicaRunner& runner) : runner_(runner) { runner_.KeepState(); }
  ~KeptState() { runner_.RestoreState(); }
  KeptState(const KeptState&) = delete;
  KeptState& operator=(const KeptState&) = delete;

 private:
  ReplicaRunner& runner_;
};

bool IsMean(const VariableSpec& state) {
  if (state.aggregation != Aggregation::kDefault) return state.aggregation == Aggregation::kMean;
  return state.dtype == DType::kFloat32 || state.dtype == DType::kFloat64;
}

Metrics Means(const Metrics& sums) {
  Metrics means;
  const auto examples = sums.find(kExamples);
  if (examples == sums.end() || examples->second == 0) return means;
  for (const auto& [name, sum] : sums) {
    if (name != kExamples) means[name] = sum / examples->second;
  }
  return means;
}

}  // namespace

std::vector<PullItem> Evaluation::ToPull(EvaluatedState state) const {
  std::vector<PullItem> items = parts_.runner.Storage();
  const Declaration& declaration = parts_.runner.declaration();
  const bool sync = IsSync(parts_.spec);
  const auto own = [&](const PullItem& item) {
    const VariableSpec& variable = declaration.variables[item.variable];
    if (variable.group == 0) return state == EvaluatedState::kOwnMeans && IsMean(variable);
    // In step each worker has computed it.
    const auto& optimizer = declaration.groups[variable.group - 1].optimizer;
    return sync && std::holds_alternative<Average>(optimizer);
  };
  items.erase(std::remove_if(items.begin(), items.end(), own), items.end());
  return items;
}

absl::StatusOr<Metrics> Evaluation::SumsOver(const BatchSlice& slice, uint64_t step,
                                             EvaluatedState state) {
  const KeptState kept(parts_.runner);
  PullOptions options;
  options.step = step;
  const std::vector<PullItem> into = ToPull(state);
  WEIR_RETURN_IF_ERROR(parts_.client.Pull(into, options).status());
  parts_.runner.Land(into);
  Metrics sums;
  sums[kExamples] = static_cast<double>(slice.examples());
  uint64_t next = slice.first;
  while (next < slice.end) {
    WEIR_RETURN_IF_ERROR(CheckNotInterrupted(parts_));
    std::vector<ReplicaBatch> batches;
    const uint64_t first = next;
    for (uint32_t i = 0; i < parts_.runner.replicas() && next < slice.end; ++i) {
      const uint64_t end = std::min(slice.end, next + kBatch);
      WEIR_ASSIGN_OR_RETURN(batches.emplace_back(), parts_.test->Read({0, next, end}));
      next = end;
    }
    WEIR_ASSIGN_OR_RETURN(const Metrics means, parts_.runner.Evaluate(batches));
    for (const auto& [name, mean] : means) sums[name] += mean * static_cast<double>(next - first);
  }
  return sums;
}

absl::StatusOr<Metrics> Evaluation::Alone(uint64_t step, EvaluatedState state) {
  WEIR_ASSIGN_OR_RETURN(const Metrics sums, SumsOver({0, 0, parts_.test->size()}, step, state));
  return Means(sums);
}

// None for a member that has run no step yet: the others' sums are without its own.
BatchSlice Evaluation::ShareOf(const JobInfo& info, uint64_t step) const {
  const std::vector<JobInfo::Member> members = MembersAt(info.members, step);
  uint64_t index = 0;
  bool counted = false;
  for (const JobInfo::Member& member : members) {
    index += member.rank < info.rank ? 1 : 0;
    counted = counted || member.rank == info.rank;
  }
  return counted ? PartOf(parts_.test->size(), index, members.size()) : BatchSlice();
}

absl::StatusOr<Metrics> Evaluation::Together(const std::string& name, uint64_t step) {
  constexpr int kTries = 5;
  const absl::Duration timeout = absl::Milliseconds(parts_.spec.step_timeout_ms());
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const JobInfo info = parts_.session.Info();
    WEIR_ASSIGN_OR_RETURN(const Metrics mine,
                          SumsOver(ShareOf(info, step), step, EvaluatedState::kAggregate));
    const std::string barrier = attempt == 0 ? name : absl::StrCat(name, "-", attempt + 1);
    WEIR_ASSIGN_OR_RETURN(const BarrierResult all,
                          parts_.session.Barrier(barrier, mine, {timeout, step}));
    // A member that died, or views that differed: everybody sees the same sum, and tries again.
    const auto examples = all.sums.find(kExamples);
    if (examples != all.sums.end() &&
        examples->second == static_cast<double>(parts_.test->size())) {
      return Means(all.sums);
    }
  }
  return absl::UnavailableError("evaluation: the members changed each time");
}

}  // namespace weir
