// SPDX-License-Identifier: Apache-2.0
#include "bench/bench_job.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "rpc/errors.h"

namespace weir::bench {
namespace {
constexpr absl::Duration kTimeout = absl::Minutes(1);
}  // namespace

absl::StatusOr<std::unique_ptr<BenchJob>> BenchJob::Create(const std::string& coordinator,
                                                           const std::string& name,
                                                           uint64_t elements, uint64_t variables) {
  JoinOptions options;
  options.coordinator = coordinator;
  options.name = name;
  WEIR_ASSIGN_OR_RETURN(Job job, JoinJob(options));
  return Create(std::move(job), elements, variables);
}

absl::StatusOr<std::unique_ptr<BenchJob>> BenchJob::Create(Job job, uint64_t elements,
                                                           uint64_t variables) {
  std::unique_ptr<BenchJob> bench(new BenchJob(elements, variables));
  bench->job_ = std::move(job);
  WEIR_RETURN_IF_ERROR(bench->SetUp());
  return bench;
}

BenchJob::BenchJob(uint64_t elements, uint64_t variables)
    : gradient_(elements, 1e-3f), weights_(elements, 1.0f) {
  const uint64_t each = elements / variables;
  for (uint64_t v = 0; v < variables; ++v) {
    const uint64_t first = v * each;
    const size_t bytes = (v + 1 == variables ? elements - first : each) * sizeof(float);
    push_.push_back({.variable = v, .data = gradient_.data() + first, .bytes = bytes});
    pull_.push_back({.variable = v, .data = weights_.data() + first, .bytes = bytes});
  }
}

BenchJob::~BenchJob() {
  job_.parameters.reset();
  if (job_.session != nullptr) job_.session->Leave(true, "").IgnoreError();
}

absl::Status BenchJob::SetUp() {
  Declaration declaration;
  for (const PushItem& item : push_) {
    declaration.variables.push_back(
        {.name = absl::StrCat("weights", item.variable), .shape = {item.bytes / sizeof(float)}});
  }
  OptimizerGroup& group = declaration.groups.emplace_back();
  group.name = "sgd";
  group.learning_rate.base = 1e-3;
  WEIR_RETURN_IF_ERROR(job_.session->Declare(declaration));
  absl::Status begun;
  do {
    WEIR_ASSIGN_OR_RETURN(const JobInfo info, job_.session->WaitUntilReady(kTimeout));
    begun = Begin(info);
  } while (absl::IsAborted(begun));
  return begun;
}

absl::Status BenchJob::Begin(const JobInfo& info) {
  if (info.initialiser) {
    std::vector<PushItem> initial;
    for (const PullItem& item : pull_) {
      initial.push_back({.variable = item.variable, .data = item.data, .bytes = item.bytes});
    }
    WEIR_RETURN_IF_ERROR(job_.parameters->Assign(initial));
    WEIR_RETURN_IF_ERROR(job_.session->ReportInitialised());
    WEIR_ASSIGN_OR_RETURN(const JobInfo ready, job_.session->WaitUntilReady(kTimeout));
    // A rollback meanwhile has undone what was assigned.
    if (ready.attempt != info.attempt) return StaleAttempt(info.attempt, ready.attempt);
  }
  return Pull();
}

PushOptions BenchJob::NextPush() {
  PushOptions options;
  options.step = options.group_step = step_++;
  options.examples = 1;
  options.timeout = kTimeout;
  return options;
}

absl::Status BenchJob::Pull() {
  PullOptions options;
  options.timeout = kTimeout;
  return job_.parameters->Pull(pull_, options).status();
}
absl::Status BenchJob::Push() {
  return job_.parameters->Push(push_, NextPush()).status();
}
absl::Status BenchJob::PushPull() {
  return job_.parameters->PushPull(push_, pull_, NextPush()).status();
}

}  // namespace weir::bench
