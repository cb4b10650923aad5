// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/small_training.h"

#include <atomic>
#include <random>

#include "common/status_macros.h"
#include "worker/embedded/local_job.h"
#include "worker/input_pipelines.h"
#include "worker/torch_runner.h"
#include "worker/training_loop.h"

namespace weir {
namespace {

constexpr uint64_t kExamples = 200;
constexpr uint64_t kSide = 8;

}  // namespace

// Class k lights row k; the rest is noise.
ImageDataset SmallDataset() {
  ImageDataset dataset;
  dataset.height = dataset.width = kSide;
  dataset.classes = 4;
  std::mt19937 random(5);
  for (uint64_t i = 0; i < kExamples; ++i) {
    dataset.labels.push_back(static_cast<uint8_t>(i % dataset.classes));
    for (uint64_t pixel = 0; pixel < kSide * kSide; ++pixel) {
      const bool lit = pixel / kSide == dataset.labels.back();
      dataset.pixels.push_back(static_cast<uint8_t>((lit ? 120 : 0) + random() % 100));
    }
  }
  return dataset;
}

v1::JobSpec SmallJob(const std::string& name, const v1::Optimizer& optimizer) {
  v1::JobSpec spec;
  spec.set_name(name);
  spec.mutable_model()->set_builtin("mlp");
  (*spec.mutable_model()->mutable_options())["hidden"] = "12";
  spec.mutable_data()->mutable_batch()->set_global(16);
  spec.mutable_data()->set_normalise(true);
  spec.set_workers(1);
  spec.set_min_workers(1);
  spec.set_replicas_per_worker(1);
  spec.mutable_regime()->set_kind(v1::REGIME_SYNC);
  (*spec.mutable_optimizers())["main"] = optimizer;
  spec.mutable_length()->set_steps(50);
  spec.set_seed(11);
  spec.set_log_every(10);
  spec.set_state_every(10);
  spec.set_step_timeout_ms(60000);
  spec.set_orphan_ttl_ms(60000);
  spec.set_train_examples(kExamples);
  return spec;
}

absl::StatusOr<std::unique_ptr<ReplicaRunner>> SmallRunner(const v1::JobSpec& spec,
                                                           const ModelRegistry& models) {
  TorchRunnerOptions options;
  options.spec = spec;
  options.height = options.width = kSide;
  options.classes = 4;
  return CreateTorchRunner(models, options);
}

std::vector<float> ValuesOf(ReplicaRunner& runner) {
  std::vector<float> values;
  for (const PullItem& item : runner.Storage()) {
    if (runner.declaration().variables[item.variable].dtype != DType::kFloat32) continue;
    const auto* data = static_cast<const float*>(item.data);
    values.insert(values.end(), data, data + item.bytes / sizeof(float));
  }
  return values;
}

absl::StatusOr<Trained> TrainSmall(const v1::JobSpec& spec, JobSession& session,
                                   ParameterClient& client, const ModelRegistry& models) {
  const ImageDataset dataset = SmallDataset();
  const WorkerInputs inputs = ImageInputs(spec, session.Info().rank, dataset, dataset);
  const std::atomic<bool> interrupted{false};
  WEIR_ASSIGN_OR_RETURN(const auto runner, SmallRunner(spec, models));
  ProgressLog::Options logging;
  logging.log_every = spec.log_every();
  logging.train_examples = spec.train_examples();
  WEIR_ASSIGN_OR_RETURN(const auto log, ProgressLog::Create(logging, session, Clock::Real()));
  TrainingLoop loop({spec, session, client, *runner, *inputs.train, inputs.test.get(), *log,
                     Clock::Real(), interrupted});
  Trained trained;
  WEIR_ASSIGN_OR_RETURN(trained.summary, loop.Run());
  trained.values = ValuesOf(*runner);
  return trained;
}

absl::StatusOr<Trained> TrainLocally(const v1::JobSpec& spec, const ModelRegistry& models) {
  LocalJobOptions options;
  options.spec = spec;
  WEIR_ASSIGN_OR_RETURN(const Job job, OpenLocalJob(options));
  return TrainSmall(spec, *job.session, *job.parameters, models);
}

}  // namespace weir
