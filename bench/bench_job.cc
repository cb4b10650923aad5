// SPDX-License-Identifier: Apache-2.0
#include "bench/bench_job.h"

#include "common/status_macros.h"

namespace weir::bench {
namespace {
constexpr absl::Duration kTimeout = absl::Minutes(1);
}  // namespace

absl::StatusOr<std::unique_ptr<BenchJob>> BenchJob::Create(const std::string& coordinator,
                                                           const std::string& name,
                                                           uint64_t elements) {
  std::unique_ptr<BenchJob> bench(new BenchJob(elements));
  JoinOptions options;
  options.coordinator = coordinator;
  options.name = name;
  WEIR_ASSIGN_OR_RETURN(bench->job_, JoinJob(options));
  WEIR_RETURN_IF_ERROR(bench->SetUp());
  return bench;
}

BenchJob::~BenchJob() {
  job_.parameters.reset();
  if (job_.session != nullptr) job_.session->Leave(true, "").IgnoreError();
}

absl::Status BenchJob::SetUp() {
  Declaration declaration;
  declaration.variables.push_back({.name = "weights", .shape = {gradient_.size()}});
  OptimizerGroup& group = declaration.groups.emplace_back();
  group.name = "sgd";
  group.learning_rate.base = 1e-3;
  JobSession& session = *job_.session;
  WEIR_RETURN_IF_ERROR(session.Declare(declaration));
  WEIR_ASSIGN_OR_RETURN(const JobInfo info, session.WaitUntilReady(kTimeout));
  if (info.initialiser) {
    const PushItem initial = {
        .variable = 0, .data = weights_.data(), .bytes = weights_.size() * sizeof(float)};
    WEIR_RETURN_IF_ERROR(job_.parameters->Assign({&initial, 1}));
    WEIR_RETURN_IF_ERROR(session.ReportInitialised());
    WEIR_RETURN_IF_ERROR(session.WaitUntilReady(kTimeout).status());
  }
  return Pull();
}

PushItem BenchJob::gradient() const {
  return {.variable = 0, .data = gradient_.data(), .bytes = gradient_.size() * sizeof(float)};
}
PullItem BenchJob::weights() {
  return {.variable = 0, .data = weights_.data(), .bytes = weights_.size() * sizeof(float)};
}
PushOptions BenchJob::NextPush() {
  PushOptions options;
  options.step = options.group_step = step_++;
  options.examples = 1;
  options.timeout = kTimeout;
  return options;
}

absl::Status BenchJob::Pull() {
  const PullItem into = weights();
  PullOptions options;
  options.timeout = kTimeout;
  return job_.parameters->Pull({&into, 1}, options).status();
}
absl::Status BenchJob::Push() {
  const PushItem from = gradient();
  return job_.parameters->Push({&from, 1}, NextPush()).status();
}
absl::Status BenchJob::PushPull() {
  const PushItem from = gradient();
  const PullItem into = weights();
  return job_.parameters->PushPull({&from, 1}, {&into, 1}, NextPush()).status();
}

}  // namespace weir::bench
