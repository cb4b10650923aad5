// SPDX-License-Identifier: Apache-2.0
#include "worker/worker_run.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "rpc/errors.h"
#include "rpc/job_length.h"
#include "rpc/regime.h"
#include "worker/data/batch_slices.h"
#include "worker/data/idx.h"
#include "worker/job_file.h"
#include "worker/start_line.h"
#include "worker/torch_runner.h"
#include "worker/training_loop.h"
#include "worker/training_steps.h"

namespace weir {
namespace {

// Gradients of a check go nowhere, but are looked at.
class CheckedUpdates final : public GroupUpdates {
 public:
  explicit CheckedUpdates(const Declaration& declaration) : declaration_(declaration) {}

  absl::Status Update(uint32_t, absl::Span<const PushItem> gradients, absl::Span<const PullItem>,
                      double) override {
    for (const PushItem& item : gradients) {
      const VariableSpec& variable = declaration_.variables[item.variable];
      if (item.data == nullptr || variable.dtype != DType::kFloat32) continue;
      const auto* values = static_cast<const float*>(item.data);
      for (size_t i = 0; i < item.bytes / sizeof(float); ++i) {
        if (!std::isfinite(values[i])) return NotFinite(variable.name, i, 0, 0);
      }
    }
    return absl::OkStatus();
  }

 private:
  const Declaration& declaration_;
};

// One turn of the model's loop, each step on the same batch.
class CheckedSteps final : public TrainingSteps {
 public:
  CheckedSteps(ReplicaRunner& runner, BatchMaker& maker, uint64_t examples)
      : runner_(runner), updates_(runner.declaration()) {
    for (uint32_t i = 0; i < runner.replicas(); ++i) {
      batches_.push_back(maker.Training(PartOf(examples, i, runner.replicas())));
    }
    place_.replicas_in_sync = runner.replicas();
  }

  bool Next() override { return status_.ok() && turns_++ == 0; }
  absl::StatusOr<Metrics> Step() override {
    if (status_.ok()) {
      absl::StatusOr<Metrics> metrics = runner_.Train(place_, batches_, updates_);
      status_ = metrics.status();
      if (metrics.ok()) metrics_ = *std::move(metrics);
      ++place_.step;
    }
    if (!status_.ok()) return status_;
    return metrics_;
  }
  void Log(const absl::StatusOr<Metrics>&) override {}
  ReplicaStep Place() const override { return place_; }

  const absl::Status& status() const { return status_; }
  const Metrics& metrics() const { return metrics_; }

 private:
  ReplicaRunner& runner_;
  CheckedUpdates updates_;
  std::vector<ImageBatch> batches_;
  ReplicaStep place_;
  int turns_ = 0;
  absl::Status status_;
  Metrics metrics_;
};

WorkerExit ExitOf(const absl::Status& status) {
  if (status.ok()) return WorkerExit::kDone;
  if (IsNotFinite(status)) return WorkerExit::kDiverged;
  switch (status.code()) {
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return WorkerExit::kRefused;
    default:
      return WorkerExit::kFailed;
  }
}

WorkerExit ExitOfJoin(const absl::Status& status) {
  const bool unreached = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  return unreached ? WorkerExit::kNoCluster : ExitOf(status);
}

BatchOptions BatchOptionsOf(const v1::JobSpec& spec, const ImageDataset& train) {
  BatchOptions options;
  options.seed = spec.seed();
  options.augment = spec.data().augment();
  if (spec.data().normalise()) options.normalisation = NormalisationOf(train);
  return options;
}

ProgressLog::Options LoggingOf(const v1::JobSpec& spec) {
  ProgressLog::Options options;
  options.log_every = spec.log_every();
  options.train_examples = spec.train_examples();
  options.sync = IsSync(spec);
  options.backup_workers = spec.regime().backup_workers() > 0;
  options.total_examples = static_cast<double>(
      options.sync ? ExamplesAfterSteps(TotalSteps(spec), spec) : TotalExamples(spec));
  return options;
}

uint64_t ParameterElements(const Declaration& declaration) {
  uint64_t elements = 0;
  for (const VariableSpec& variable : declaration.variables) {
    if (variable.group != 0) elements += variable.elements();
  }
  return elements;
}

absl::Status WriteResolvedJob(const v1::JobSpec& spec, const std::string& path) {
  std::ofstream file(path);
  file << weir::PrintJob(spec);
  file.close();
  if (file.fail()) return absl::UnavailableError(absl::StrCat("cannot write ", path));
  return absl::OkStatus();
}

bool IsLowest(const JobInfo& info) {
  return info.members.empty() || info.members.front().rank == info.rank;
}

}  // namespace

struct WorkerRun::Loaded {
  v1::JobSpec spec;
  ImageDataset train;
  ImageDataset test;
  std::unique_ptr<ReplicaRunner> runner;
};

WorkerRun::WorkerRun(WorkerRunOptions options, const ModelRegistry& models, Clock& clock)
    : options_(std::move(options)), models_(models), clock_(clock) {}

WorkerResult WorkerRun::Resolve(v1::JobSpec& spec) {
  const absl::StatusOr<JobFile> job = ReadJobFile(options_.job_file, options_.overrides);
  if (!job.ok()) return {WorkerExit::kBadJob, job.status()};
  const auto shape = ReadIdxShape(job->spec.data().train(), 3);
  if (!shape.ok()) return {WorkerExit::kData, shape.status()};
  absl::StatusOr<v1::JobSpec> resolved = ResolveJob(*job, (*shape)[0]);
  if (!resolved.ok()) return {WorkerExit::kBadJob, resolved.status()};
  spec = *std::move(resolved);
  run_dir_ = options_.run_dir.empty() ? absl::StrCat("runs/", spec.name()) : options_.run_dir;
  return {};
}

WorkerResult WorkerRun::PrintJob(std::string& yaml) {
  v1::JobSpec spec;
  WorkerResult result = Resolve(spec);
  if (result.status.ok()) yaml = weir::PrintJob(spec);
  return result;
}

WorkerResult WorkerRun::Load(Loaded& loaded) {
  WorkerResult result = Resolve(loaded.spec);
  if (!result.status.ok()) return result;
  const v1::DataSpec& data = loaded.spec.data();
  absl::StatusOr<ImageDataset> train = LoadImages(data.train(), data.train_labels());
  if (!train.ok()) return {WorkerExit::kData, train.status()};
  absl::StatusOr<ImageDataset> test = LoadImages(data.test(), data.test_labels());
  if (!test.ok()) return {WorkerExit::kData, test.status()};
  if (test->height != train->height || test->width != train->width) {
    return {WorkerExit::kData,
            absl::InvalidArgumentError(absl::StrCat(data.test(), " has images of ", test->height,
                                                    "x", test->width, ", but ", data.train(),
                                                    " of ", train->height, "x", train->width))};
  }
  loaded.train = *std::move(train);
  loaded.test = *std::move(test);
  TorchRunnerOptions model;
  model.spec = loaded.spec;
  model.height = loaded.train.height;
  model.width = loaded.train.width;
  model.classes = std::max(loaded.train.classes, loaded.test.classes);
  auto runner = CreateTorchRunner(models_, model);
  if (!runner.ok()) return {WorkerExit::kBadJob, runner.status()};
  loaded.runner = *std::move(runner);
  return {};
}

WorkerResult WorkerRun::Check(std::string& report) {
  Loaded loaded;
  WorkerResult result = Load(loaded);
  if (!result.status.ok()) return result;
  BatchMaker maker(loaded.train, BatchOptionsOf(loaded.spec, loaded.train));
  const uint64_t examples = std::min<uint64_t>(AsyncBatch(loaded.spec), loaded.train.examples());
  CheckedSteps steps(*loaded.runner, maker, examples);
  absl::Status status = loaded.runner->Loop(steps);
  if (!steps.status().ok()) status = steps.status();
  if (!status.ok()) return {ExitOf(status), status};
  const Metrics& metrics = steps.metrics();
  const Declaration& declaration = loaded.runner->declaration();
  report = absl::StrFormat(
      "%s: fine. %s: %d variables, %d parameters; %d training and %d test examples; one batch of "
      "%d: loss %.4f\n",
      options_.job_file,
      loaded.spec.model().replica().empty() ? loaded.spec.model().builtin()
                                            : loaded.spec.model().replica(),
      declaration.variables.size(), ParameterElements(declaration), loaded.train.examples(),
      loaded.test.examples(), examples, metrics.count("loss") ? metrics.at("loss") : 0.0);
  return {};
}

WorkerResult WorkerRun::Train() {
  Loaded loaded;
  WorkerResult result = Load(loaded);
  if (!result.status.ok()) return result;
  // A worker whose lease ended (a suspended machine) comes back as a new one, a few times.
  constexpr int kLives = 5;
  bool join_anew = true;
  for (int life = 0; life < kLives && join_anew; ++life) {
    join_anew = false;
    result = TrainOnce(loaded, join_anew);
    if (join_anew) spdlog::warn("joining anew: {}", result.status.ToString());
    loaded.spec.clear_replace();  // what was to be replaced has been
  }
  return result;
}

WorkerResult WorkerRun::TrainOnce(Loaded& loaded, bool& join_anew) {
  joined_ = false;
  absl::StatusOr<Job> opened = options_.open_job(loaded.spec);
  if (!opened.ok()) return {ExitOfJoin(opened.status()), opened.status()};
  joined_ = true;
  std::shared_ptr<JobSession> session = std::move(opened->session);
  {
    MutexLock lock(mutex_);
    session_ = session;
  }
  Job job{nullptr, std::move(opened->parameters)};
  absl::StatusOr<RunSummary> summary = RunLoop(loaded, *session, *job.parameters);
  join_anew = absl::IsAborted(summary.status()) && !interrupted_;
  {
    MutexLock lock(mutex_);
    session_.reset();
  }
  job.parameters.reset();
  if (!summary.ok()) return {ExitOf(summary.status()), summary.status()};
  if (!summary->lead) return {};
  const absl::Status written = WriteSummary(*summary, run_dir_ + "/summary.json");
  if (!written.ok()) return {WorkerExit::kFailed, written};
  // Said in the log already; a local job may be one that cannot be saved.
  if (summary->saved.ok() || absl::IsUnimplemented(summary->saved)) return {};
  return {WorkerExit::kFailed, summary->saved};
}

absl::StatusOr<RunSummary> WorkerRun::RunLoop(Loaded& loaded, JobSession& session,
                                              ParameterClient& client) {
  const v1::JobSpec& spec = loaded.spec;
  const JobInfo info = session.Info();
  std::error_code error;
  std::filesystem::create_directories(run_dir_, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat(run_dir_, ": cannot be made: ", error.message()));
  }
  ProgressLog::Options logging = LoggingOf(spec);
  logging.metrics_file = run_dir_ + "/metrics.jsonl";
  // No other worker writes before all of them, this one too, have declared their variables.
  logging.start_anew = IsLowest(info) && info.state == JobState::kWaiting && spec.resume().empty();
  logging.display = options_.display;
  logging.terminal = options_.terminal;
  if (options_.display != nullptr) {
    std::fprintf(options_.display, "%s\n", StartLine(spec).c_str());
  }
  WEIR_ASSIGN_OR_RETURN(const auto log, ProgressLog::Create(logging, session, clock_));
  if (IsLowest(info)) WEIR_RETURN_IF_ERROR(WriteResolvedJob(spec, run_dir_ + "/job.yaml"));
  BatchMaker train(loaded.train, BatchOptionsOf(spec, loaded.train));
  BatchMaker test(loaded.test, BatchOptionsOf(spec, loaded.train));
  return TrainingLoop(TrainingParts{spec, session, client, *loaded.runner, train, test,
                                    loaded.test.examples(), *log, clock_, interrupted_})
      .Run();
}

void WorkerRun::Interrupt() {
  interrupted_ = true;
}

void WorkerRun::LeaveNow(absl::string_view reason) {
  std::shared_ptr<JobSession> session;
  {
    MutexLock lock(mutex_);
    session = session_;
  }
  if (session == nullptr) return;
  const absl::Status left = session->Leave(false, std::string(reason));
  if (!left.ok()) spdlog::warn("leaving the job: {}", left.ToString());
}

}  // namespace weir
