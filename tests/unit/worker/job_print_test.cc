// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "worker/job_file.h"

namespace weir {
namespace {

absl::StatusOr<v1::JobSpec> Resolve(const std::string& text) {
  auto job = ParseJobFile({"job.yaml", text, "", {}});
  if (!job.ok()) return job.status();
  return ResolveJob(*job, 60000);
}

class PrintJobOf : public testing::TestWithParam<const char*> {};

TEST_P(PrintJobOf, ReadsBackAsTheSameJob) {
  WEIR_ASSERT_OK_AND_ASSIGN(
      const v1::JobSpec spec,
      Resolve(
          absl::StrCat("name: n\ndata: {train: \"/a b/\\\"train-images-idx3\", test: /t, batch: "
                       "{global: 64}, augment: true}\n",
                       GetParam())));
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::JobSpec again, Resolve(PrintJob(spec)));
  EXPECT_EQ(again.DebugString(), spec.DebugString());
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, PrintJobOf,
    testing::Values(
        "model: {builtin: mlp}\nsteps: 10\n",
        "model: {builtin: mlp}\nsteps: 10\nregime: {bounded_staleness: 3}\n",
        "model: {builtin: mlp}\nsteps: 10\nregime: {sync_group_size: 2}\nworkers: 6\n",
        "model: {builtin: mlp}\nsteps: 10\nregime: sync\nworkers: 3\nbackup_workers: 1\n",
        "model: {builtin: mlp}\nsteps: 10\nlearning_rate_scale: 1/workers\n",
        "model: {builtin: mlp}\nsteps: 10\nlearning_rate_scale: 1/staleness\n",
        "model: {builtin: mlp, options: {hidden: [64, 32]}}\nregime: sync\nexamples: 1e6\n"
        "deterministic: true\noptimizers: {adam: {learning_rate: 1e-3}}\n",
        "model: {builtin: resnet}\nepochs: 2.5\ncheckpoint: {every: 5 min, keep: 2, at_end: no}\n"
        "optimizers: {sgd: {learning_rate: {linear: {from: 0.2, warm_up: 1 epoch}}, momentum: 0.9, "
        "nesterov: true, weight_decay: 5e-4}}\n",
        "model: {builtin: resnet}\nepochs: 2\nresume: auto\nreplace: true\nevaluate: {every: 1 "
        "epoch}\n"
        "optimizers: {a: {kind: rmsprop, learning_rate: {step: {from: 0.2, at: [1 epoch]}}}}\n",
        "model: {builtin: resnet}\nepochs: 2\nshard_bytes: 1 MiB\nmax_bytes: 2 GiB\n"
        "optimizers: {a: {kind: adagrad, learning_rate: {cosine: {from: 0.1, over: 1 epoch}}}}\n",
        "model: {replica: gan, options: {width: 3, sizes: [3, 4], kind: \"a: b\"}}\nepochs: 2\n"
        "replicas_per_worker: 4\ndevice: cuda\nprecision: bf16\nlogical_devices: 2\n",
        "model: {builtin: mlp}\nepochs: 2\noptimizers: {sgd: {learning_rate: 0.1, clip: "
        "{global_norm: 0.5}, no_decay: [bias, \"bn*\", \"a\\\"b\"]}}\n",
        "model: {builtin: mlp}\nepochs: 2\n"
        "optimizers: {sgd: {learning_rate: 0.1, clip: {push_norm: 2}}}\n",
        "model: {builtin: mlp}\nepochs: 2\n"
        "optimizers: {sgd: {learning_rate: 0.1, clip: {value: 1e-2}}}\n",
        "model: {builtin: resnet}\nepochs: 2\norphan_ttl: 90 s\n"
        "optimizers: {a: {kind: adamw, learning_rate: {constant: {from: 0.1, warm_up: 9 "
        "steps}}}}\n"));

}  // namespace
}  // namespace weir
