// SPDX-License-Identifier: Apache-2.0
#include "bench/bench_job.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace weir::bench {
namespace {
constexpr absl::Duration kTimeout = absl::Minutes(1);
}  // namespace

absl::StatusOr<std::unique_ptr<BenchJob>> BenchJob::Create(const std::string& coordinator,
                                                           const std::string& name,
                                                           uint64_t elements, uint64_t variables) {
  std::unique_ptr<BenchJob> bench(new BenchJob(elements, variables));
  JoinOptions options;
  options.coordinator = coordinator;
  options.name = name;
  WEIR_ASSIGN_OR_RETURN(bench->job_, JoinJob(options));
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
  JobSession& session = *job_.session;
  WEIR_RETURN_IF_ERROR(session.Declare(declaration));
  WEIR_ASSIGN_OR_RETURN(const JobInfo info, session.WaitUntilReady(kTimeout));
  if (info.initialiser) {
    std::vector<PushItem> initial;
    for (const PullItem& item : pull_) {
      initial.push_back({.variable = item.variable, .data = item.data, .bytes = item.bytes});
    }
    WEIR_RETURN_IF_ERROR(job_.parameters->Assign(initial));
    WEIR_RETURN_IF_ERROR(session.ReportInitialised());
    WEIR_RETURN_IF_ERROR(session.WaitUntilReady(kTimeout).status());
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
