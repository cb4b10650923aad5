// SPDX-License-Identifier: Apache-2.0
#include "worker/embedded/local_job_session.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/declaration_proto.h"
#include "client/job_info.h"
#include "common/clock.h"
#include "common/random_id.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "rpc/job_length.h"
#include "rpc/job_state.h"
#include "sharding/layout.h"

namespace weir {
namespace {

using ::google::protobuf::util::MessageDifferencer;

constexpr absl::string_view kUndeclared = "nothing is declared yet";

// Rates and lengths may be others than when the checkpoint was saved; what its bytes mean may not.
absl::Status CheckSameVariables(const v1::Manifest& source, const v1::Declaration& declaration) {
  const auto differ = [&](absl::string_view what) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint ", source.id(), " does not fit the job: ", what, " differs"));
  };
  const v1::Declaration& saved = source.declaration();
  if (saved.variables_size() != declaration.variables_size())
    return differ("the variables' number");
  for (int i = 0; i < saved.variables_size(); ++i) {
    if (!MessageDifferencer::Equals(saved.variables(i), declaration.variables(i))) {
      return differ(absl::StrCat("variable '", declaration.variables(i).name(), "'"));
    }
  }
  if (saved.groups_size() != declaration.groups_size()) return differ("the groups' number");
  for (int i = 0; i < saved.groups_size(); ++i) {
    if (saved.groups(i).optimizer().kind_case() != declaration.groups(i).optimizer().kind_case()) {
      return differ(absl::StrCat("the optimizer of '", declaration.groups(i).name(), "'"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSpec(const v1::JobSpec& spec) {
  if (spec.name().empty()) return absl::InvalidArgumentError("a job needs a name");
  if (!std::isfinite(spec.length().epochs()) || spec.length().epochs() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("epochs: ", spec.length().epochs(), " is no length of training"));
  }
  return absl::OkStatus();
}

ParameterServer::Options ServerOptions(const LocalJobOptions& options, uint64_t incarnation,
                                       Executor* executor) {
  ParameterServer::Options server;
  server.name = "local";
  server.incarnation = incarnation;
  server.memory_limit_bytes = options.memory_limit_bytes;
  server.clock = options.clock;
  server.executor = executor;
  return server;
}

v1::JobView FirstView(const v1::JobSpec& spec, WorkerId worker) {
  v1::JobView view;
  view.set_run_id(RandomId());
  view.set_name(spec.name());
  view.set_version(1);
  view.set_term(1);
  view.set_attempt(1);
  view.set_generation(1);
  view.set_state(v1::JOB_STATE_WAITING);
  view.set_message(std::string(kUndeclared));
  *view.mutable_spec() = spec;
  view.mutable_spec()->set_workers(1);
  view.mutable_spec()->set_min_workers(1);
  view.mutable_spec()->mutable_regime()->set_kind(v1::REGIME_ASYNC);
  view.add_members()->set_worker(static_cast<uint64_t>(worker));
  return view;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalJobSession>> LocalJobSession::Create(
    const LocalJobOptions& options) {
  WEIR_RETURN_IF_ERROR(CheckSpec(options.spec));
  std::unique_ptr<LocalJobSession> session(new LocalJobSession(options));
  if (!options.data_dir.empty()) {
    WEIR_ASSIGN_OR_RETURN(session->checkpoints_,
                          LocalCheckpoints::Open({.files = &FileSystem::Real(),
                                                  .clock = options.clock,
                                                  .data_dir = options.data_dir,
                                                  .spec = options.spec}));
    WEIR_ASSIGN_OR_RETURN(LocalCheckpoints::Beginning beginning, session->checkpoints_->Begin());
    session->background_ = Executor::CreatePool(1);
    WEIR_RETURN_IF_ERROR(session->TakeUp(std::move(beginning)));
  } else if (!options.spec.resume().empty() && options.spec.resume() != "auto") {
    return absl::NotFoundError(
        absl::StrCat("resume: ", options.spec.resume(), ": the job has no data folder"));
  }
  const v1::JobView view = [&] {
    MutexLock lock(session->mutex_);
    return session->view_;
  }();
  WEIR_RETURN_IF_ERROR(session->server_->ApplyView(view));
  return session;
}

absl::Status LocalJobSession::TakeUp(LocalCheckpoints::Beginning beginning) {
  v1::JobView view;
  {
    MutexLock lock(mutex_);
    if (beginning.run_id != 0) view_.set_run_id(beginning.run_id);
    view_.set_attempt(beginning.attempt);
    source_ = std::move(beginning.source);
    if (source_ != nullptr) view_.mutable_resume()->set_checkpoint_id(source_->id());
    goes_on_ = beginning.run_id != 0;
    saved_at_time_ = clock_.Now();
    view = view_;
  }
  return checkpoints_->Record(view);
}

LocalJobSession::LocalJobSession(const LocalJobOptions& options)
    : clock_(*options.clock),
      stop_requested_(options.stop_requested),
      worker_(WorkerId{RandomId()}),
      server_incarnation_(RandomId()),
      executor_(Executor::CreatePool(std::max(1, options.threads))),
      server_(std::make_unique<ParameterServer>(
          ServerOptions(options, server_incarnation_, executor_.get()))),
      view_(FirstView(options.spec, worker_)),
      ranges_({.epoch_examples = options.spec.train_examples(),
               .batch = AsyncBatch(options.spec),
               .total_examples = TotalExamples(options.spec)}) {}

LocalJobSession::~LocalJobSession() = default;

void LocalJobSession::Attach(std::weak_ptr<ViewListener> client) {
  MutexLock lock(mutex_);
  client_ = std::move(client);
}

JobInfo LocalJobSession::Info() const {
  MutexLock lock(mutex_);
  JobInfo info = InfoOf(view_, worker_);
  info.stop = stop_requested();
  return info;
}

v1::JobView LocalJobSession::Change(v1::JobState state) {
  view_.set_version(view_.version() + 1);
  view_.set_state(state);
  view_.clear_message();
  return view_;
}

absl::Status LocalJobSession::Publish(const v1::JobView& view) {
  std::shared_ptr<ViewListener> client;
  {
    MutexLock lock(mutex_);
    client = client_.lock();
  }
  WEIR_RETURN_IF_ERROR(server_->ApplyView(view));
  if (client == nullptr) return absl::OkStatus();
  return client->OnView(std::make_shared<const v1::JobView>(view));
}

absl::Status LocalJobSession::Place(const v1::Manifest* source) {
  std::vector<VariableExtent> extents;
  for (const v1::Variable& variable : view_.declaration().variables()) {
    extents.push_back({ElementsOf(variable), ElementBytes(variable.dtype())});
  }
  // The boundaries of shards are fixed by the checkpoint, where there is one.
  uint64_t shard_bytes = view_.spec().shard_bytes();
  uint64_t chunk_bytes = kDefaultChunkBytes;
  if (source != nullptr) {
    WEIR_RETURN_IF_ERROR(CheckSameVariables(*source, view_.declaration()));
    shard_bytes = source->shard_map().shard_bytes();
    chunk_bytes = source->shard_map().chunk_bytes();
  }
  WEIR_RETURN_IF_ERROR(CheckLayout(extents, shard_bytes, chunk_bytes));
  const Layout layout(extents, shard_bytes, chunk_bytes);
  v1::ShardMap& map = *view_.mutable_shard_map();
  map.Clear();
  map.set_version(1);
  map.set_shard_bytes(layout.shard_bytes());
  map.set_chunk_bytes(layout.chunk_bytes());
  map.add_servers()->set_name(LocalCheckpoints::kServer);
  map.mutable_servers(0)->set_incarnation(server_incarnation_);
  map.mutable_servers(0)->set_address("in this process");
  map.mutable_server_of_shard()->Resize(static_cast<int>(layout.shards().size()), 0);
  return absl::OkStatus();
}

void LocalJobSession::Undeclare() {
  view_.clear_declaration();
  view_.clear_shard_map();
  view_.clear_initialiser();
  Change(v1::JOB_STATE_WAITING);
  view_.set_message(std::string(kUndeclared));
}

absl::Status LocalJobSession::Declare(const Declaration& declaration) {
  v1::Declaration proto = ToProto(declaration);
  WEIR_RETURN_IF_ERROR(CheckWellFormed(proto));
  v1::JobView view;
  bool restores = false;
  {
    MutexLock lock(mutex_);
    if (view_.has_declaration()) {
      MessageDifferencer differencer;
      std::string differences;
      differencer.ReportDifferencesToString(&differences);
      if (differencer.Compare(view_.declaration(), proto)) return absl::OkStatus();
      return absl::FailedPreconditionError(
          absl::StrCat("another declaration came before: ", differences));
    }
    *view_.mutable_declaration() = std::move(proto);
    const absl::Status placed = Place(source_.get());
    if (!placed.ok()) {
      Undeclare();
      return placed;
    }
    restores = source_ != nullptr;
    if (!restores) {
      view_.set_initialiser(static_cast<uint64_t>(worker_));
      view = Change(v1::JOB_STATE_INITIALISING);
    }
  }
  if (restores) return Restore();
  const absl::Status published = Publish(view);
  if (!published.ok()) {
    MutexLock lock(mutex_);
    Undeclare();
  }
  return published;
}

absl::StatusOr<JobInfo> LocalJobSession::WaitUntilReady(absl::Duration) {
  std::shared_ptr<ViewListener> client;
  JobInfo info;
  {
    MutexLock lock(mutex_);
    WEIR_RETURN_IF_ERROR(CheckNotEnded(view_));
    info = InfoOf(view_, worker_);
    client = client_.lock();
  }
  if (!IsReady(info)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the job is not ready, and nobody else can make it so: ", info.message));
  }
  if (client != nullptr) client->Adopt(info.attempt);
  return info;
}

absl::Status LocalJobSession::ReportInitialised() {
  v1::JobView view;
  {
    MutexLock lock(mutex_);
    if (view_.state() == v1::JOB_STATE_RUNNING) return absl::OkStatus();
    if (view_.state() != v1::JOB_STATE_INITIALISING) {
      return absl::FailedPreconditionError("no initial values are expected now");
    }
    view_.clear_initialiser();
    view = Change(v1::JOB_STATE_RUNNING);
  }
  return Publish(view);
}

absl::Status LocalJobSession::WaitForOtherAttempt(uint64_t attempt, absl::Duration) {
  MutexLock lock(mutex_);
  if (view_.attempt() != attempt) return absl::OkStatus();
  WEIR_RETURN_IF_ERROR(CheckNotEnded(view_));
  return absl::AbortedError("a job in one process is not rolled back: there is no other attempt");
}

absl::StatusOr<BarrierResult> LocalJobSession::Barrier(const std::string& name,
                                                       const std::map<std::string, double>& values,
                                                       const BarrierOptions&) {
  if (name.empty()) return absl::InvalidArgumentError("a barrier needs a name");
  MutexLock lock(mutex_);
  WEIR_RETURN_IF_ERROR(CheckNotEnded(view_));
  return BarrierResult{values, 1};
}

absl::StatusOr<TakenRanges> LocalJobSession::TakeRanges(uint64_t examples, absl::Duration) {
  MutexLock lock(mutex_);
  WEIR_RETURN_IF_ERROR(CheckNotEnded(view_));
  if (!DividesData(view_.spec())) {
    return absl::FailedPreconditionError("the job has no training set or no batch size to divide");
  }
  if (view_.state() != v1::JOB_STATE_RUNNING) {
    return absl::UnavailableError(absl::StrCat("the job does not run yet: ", view_.message()));
  }
  return ranges_.Take(examples);
}

absl::Status LocalJobSession::Leave(bool finished, const std::string& reason) {
  if (finished && stop_requested()) SaveStopped();
  v1::JobView view;
  {
    MutexLock lock(mutex_);
    if (HasEnded(view_.state())) return absl::OkStatus();
    const bool stopped = finished && stop_requested();
    Change(stopped    ? v1::JOB_STATE_STOPPED
           : finished ? v1::JOB_STATE_FINISHED
                      : v1::JOB_STATE_FAILED);
    view_.set_message(stopped ? "stopped by command" : reason);
    view_.clear_members();
    view = view_;
  }
  if (checkpoints_ != nullptr) WEIR_RETURN_IF_ERROR(checkpoints_->Record(view));
  return Publish(view);
}

}  // namespace weir
