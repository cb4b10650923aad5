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
#include "worker/data/idx.h"
#include "worker/input_pipelines.h"
#include "worker/job_data.h"
#include "worker/job_file.h"
#include "worker/start_line.h"
#include "worker/torch_runner.h"
#include "worker/training_loop.h"
#include "worker/training_steps.h"

namespace weir {
namespace {

// How long a check waits for a batch.
constexpr absl::Duration kCheckedInput = absl::Seconds(30);

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
        if (!std::isfinite(values[i])) return NotFinite(variable.name, i, WorkerId{}, 0);
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
  CheckedSteps(ReplicaRunner& runner, std::vector<ReplicaBatch> batches)
      : runner_(runner), updates_(runner.declaration()), batches_(std::move(batches)) {
    place_.replicas_in_sync = runner.replicas();
  }

  bool Next() override { return status_.ok() && turns_++ == 0; }
  absl::StatusOr<Metrics> Step() override {
    if (status_.ok()) {
      absl::StatusOr<Metrics> metrics = runner_.Train(place_, batches_, updates_);
      status_ = metrics.status();
      if (metrics.ok()) metrics_ = *std::move(metrics);
      place_.global_step = ++place_.step;
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
  const std::vector<ReplicaBatch> batches_;
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

// A source has no end: its job's whole length counts as one epoch, so that the coordinator can hand
// out shares of it.
absl::StatusOr<uint64_t> TrainExamples(const v1::JobSpec& spec) {
  if (IsSource(spec.data())) return TotalExamples(spec);
  if (HasOwnInput(spec.data())) return spec.train_examples();
  WEIR_ASSIGN_OR_RETURN(const auto shape, ReadIdxShape(spec.data().train(), 3));
  // The others too, so that what is missing is said before anything starts.
  const v1::DataSpec& data = spec.data();
  WEIR_RETURN_IF_ERROR(ReadIdxShape(data.train_labels(), 1).status());
  WEIR_RETURN_IF_ERROR(ReadIdxShape(data.test(), 3).status());
  WEIR_RETURN_IF_ERROR(ReadIdxShape(data.test_labels(), 1).status());
  return shape[0];
}

bool IsLowest(const JobInfo& info) {
  return info.members.empty() || info.members.front().rank == info.rank;
}

}  // namespace

struct WorkerRun::Loaded {
  bool own_input() const { return HasOwnInput(spec.data()); }
  absl::StatusOr<WorkerInputs> Inputs(uint32_t rank, const Clock& clock) const {
    if (own_input()) return OwnInputs(spec, rank, replica_class, clock);
    return ImageInputs(spec, rank, train, test);
  }

  v1::JobSpec spec;
  ReplicaClass replica_class;
  ImageDataset train;
  ImageDataset test;
  std::unique_ptr<ReplicaRunner> runner;
};

WorkerRun::WorkerRun(WorkerRunOptions options, const ModelRegistry& models, Clock& clock)
    : options_(std::move(options)), models_(models), clock_(clock) {}

WorkerResult WorkerRun::Resolve(v1::JobSpec& spec) {
  const absl::StatusOr<JobFile> job = ReadJobFile(options_.job_file, options_.overrides);
  if (!job.ok()) return {WorkerExit::kBadJob, job.status()};
  const absl::StatusOr<uint64_t> examples = TrainExamples(job->spec);
  if (!examples.ok()) return {WorkerExit::kData, examples.status()};
  absl::StatusOr<v1::JobSpec> resolved = ResolveJob(*job, *examples);
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

WorkerResult WorkerRun::LoadImages(Loaded& loaded) {
  const v1::DataSpec& data = loaded.spec.data();
  absl::StatusOr<ImageDataset> train = weir::LoadImages(data.train(), data.train_labels());
  if (!train.ok()) return {WorkerExit::kData, train.status()};
  absl::StatusOr<ImageDataset> test = weir::LoadImages(data.test(), data.test_labels());
  if (!test.ok()) return {WorkerExit::kData, test.status()};
  if (test->height != train->height || test->width != train->width) {
    return {WorkerExit::kData,
            absl::InvalidArgumentError(absl::StrCat(data.test(), " has images of ", test->height,
                                                    "x", test->width, ", but ", data.train(),
                                                    " of ", train->height, "x", train->width))};
  }
  loaded.train = *std::move(train);
  loaded.test = *std::move(test);
  return {};
}

WorkerResult WorkerRun::Load(Loaded& loaded) {
  WorkerResult result = Resolve(loaded.spec);
  if (!result.status.ok()) return result;
  if (!loaded.spec.model().replica().empty()) {
    absl::StatusOr<ReplicaClass> own = models_.FindReplica(loaded.spec.model().replica());
    if (!own.ok()) return {WorkerExit::kBadJob, own.status()};
    loaded.replica_class = *std::move(own);
    const absl::Status input = CheckInput(loaded.spec, loaded.replica_class);
    if (!input.ok()) return {WorkerExit::kBadJob, input};
  }
  if (!loaded.own_input()) result = LoadImages(loaded);
  if (!result.status.ok()) return result;
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
  const absl::StatusOr<WorkerInputs> inputs = loaded.Inputs(0, clock_);
  if (!inputs.ok()) return {WorkerExit::kBadJob, inputs.status()};
  const uint64_t examples =
      std::min<uint64_t>(AsyncBatch(loaded.spec), loaded.spec.train_examples());
  const absl::Time give_up = clock_.Now() + kCheckedInput;
  InputRequest request;
  request.slice = {0, 0, examples};
  request.go_on = [&] {
    if (interrupted_) return absl::CancelledError("interrupted");
    if (clock_.Now() < give_up) return absl::OkStatus();
    return absl::DeadlineExceededError(
        absl::StrCat("no batch came within ", absl::FormatDuration(kCheckedInput),
                     ": everything else is fine; does what feeds the callable of MakeInput run?"));
  };
  absl::StatusOr<std::vector<ReplicaBatch>> batches = inputs->train->Take(request);
  if (!batches.ok()) return {WorkerExit::kData, batches.status()};
  CheckedSteps steps(*loaded.runner, *std::move(batches));
  absl::Status status = loaded.runner->Loop(steps);
  if (!steps.status().ok()) status = steps.status();
  if (!status.ok()) return {ExitOf(status), status};
  report = Report(loaded, *inputs, examples, steps.metrics());
  return {};
}

std::string WorkerRun::Report(const Loaded& loaded, const WorkerInputs& inputs, uint64_t examples,
                              const Metrics& metrics) const {
  const Declaration& declaration = loaded.runner->declaration();
  const std::string data =
      IsSource(loaded.spec.data())
          ? "input from a source"
          : absl::StrFormat("%d training and %d test examples", loaded.spec.train_examples(),
                            inputs.test == nullptr ? 0 : inputs.test->size());
  return absl::StrFormat(
      "%s: fine. %s: %d variables, %d parameters; %s; one batch of %d: loss %.4f\n",
      options_.job_file,
      loaded.spec.model().replica().empty() ? loaded.spec.model().builtin()
                                            : loaded.spec.model().replica(),
      declaration.variables.size(), ParameterElements(declaration), data, examples,
      metrics.count("loss") ? metrics.at("loss") : 0.0);
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
  const absl::StatusOr<WorkerInputs> inputs = loaded.Inputs(session->Info().rank, clock_);
  if (!inputs.ok()) {
    session->Leave(false, std::string(inputs.status().message())).IgnoreError();
    MutexLock lock(mutex_);
    session_.reset();
    return {WorkerExit::kData, inputs.status()};
  }
  absl::StatusOr<RunSummary> summary = RunLoop(loaded, *inputs, *session, *job.parameters);
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

absl::StatusOr<RunSummary> WorkerRun::RunLoop(Loaded& loaded, const WorkerInputs& inputs,
                                              JobSession& session, ParameterClient& client) {
  const v1::JobSpec& spec = loaded.spec;
  const JobInfo info = session.Info();
  std::error_code error;
  std::filesystem::create_directories(run_dir_, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat(run_dir_, ": cannot be made: ", error.message()));
  }
  ProgressLog::Options logging = LoggingOf(spec);
  logging.metrics_file = run_dir_ + "/metrics.jsonl";
  // No other worker writes before all of them, this one too, have declared their variables. A run
  // that waits in a later attempt goes on.
  logging.start_anew = IsLowest(info) && info.state == JobState::kWaiting && info.attempt == 1 &&
                       spec.resume().empty();
  logging.display = options_.display;
  logging.terminal = options_.terminal;
  if (options_.display != nullptr) {
    std::fprintf(options_.display, "%s\n", StartLine(spec).c_str());
  }
  WEIR_ASSIGN_OR_RETURN(const auto log, ProgressLog::Create(logging, session, clock_));
  if (IsLowest(info)) WEIR_RETURN_IF_ERROR(WriteResolvedJob(spec, run_dir_ + "/job.yaml"));
  return TrainingLoop(TrainingParts{spec, session, client, *loaded.runner, *inputs.train,
                                    inputs.test.get(), *log, clock_, interrupted_})
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
