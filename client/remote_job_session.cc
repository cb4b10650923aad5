// SPDX-License-Identifier: Apache-2.0
#include "client/remote_job_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/declaration_proto.h"
#include "client/job_info.h"
#include "common/random_id.h"
#include "common/status_macros.h"
#include "rpc/errors.h"
#include "rpc/protocol.h"

namespace weir {
namespace {

constexpr absl::Duration kCallTimeout = absl::Minutes(1);
constexpr absl::Duration kLongTimeout = absl::Minutes(10);
// Between two questions for ranges while others may still give some back.
constexpr absl::Duration kRangesPoll = absl::Milliseconds(200);

}  // namespace

absl::StatusOr<std::unique_ptr<RemoteJobSession>> RemoteJobSession::Join(Options options) {
  std::unique_ptr<RemoteJobSession> session(new RemoteJobSession(std::move(options)));
  WEIR_RETURN_IF_ERROR(session->Start());
  return session;
}

RemoteJobSession::RemoteJobSession(Options options)
    : options_(std::move(options)),
      worker_(WorkerId{RandomId()}),
      executor_(Executor::CreatePool(2)) {}

absl::Status RemoteJobSession::Start() {
  CoordinatorSession::Options session;
  session.address = options_.coordinator;
  session.clock = options_.clock;
  session.incarnation = session.seed = static_cast<uint64_t>(worker_);
  session.worker = [this] {
    v1::RegisterRequest request;
    *request.mutable_spec() = options_.spec;
    request.set_worker(static_cast<uint64_t>(worker_));
    request.set_wanted_rank(options_.wanted_rank);
    request.set_host(options_.host);
    request.set_protocol_min(kProtocol);
    request.set_protocol_max(kProtocol);
    request.set_build(kBuild);
    return request;
  };
  session.step = [this] { return StepReached(); };
  session.on_event = [this](const v1::WatchEvent& event) { TakeEvent(event); };
  session.on_ended = [this](const absl::Status& status) { TakeEnd(status); };
  WEIR_ASSIGN_OR_RETURN(session_, CoordinatorSession::Create(std::move(session)));
  const absl::Time deadline = In(options_.timeout);
  session_->Start();
  reports_ = std::thread([this] { RunReports(); });
  WEIR_RETURN_IF_ERROR(session_->WaitUntilRegistered(deadline));
  MutexLock lock(mutex_);
  while (view_ == nullptr && ended_.ok()) {
    const absl::Duration left = deadline - options_.clock->Now();
    if (left <= absl::ZeroDuration()) {
      return absl::UnavailableError(absl::StrCat("no view of job '", options_.spec.name(),
                                                 "' from the coordinator at ",
                                                 options_.coordinator));
    }
    changed_.WaitFor(mutex_, left);
  }
  return ended_;
}

// First the attempt, then the client's step: where a new attempt is adopted in between, the step is
// of a newer one than it is told for, and counts for nothing.
WorkerStep RemoteJobSession::StepReached() const {
  WorkerStep reached;
  std::shared_ptr<ViewListener> client;
  {
    MutexLock lock(mutex_);
    reached = {.attempt = adopted_, .step = step_};
    client = client_.lock();
  }
  if (client != nullptr) reached.step = std::max(reached.step, client->next_step());
  return reached;
}

RemoteJobSession::~RemoteJobSession() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (session_ != nullptr) session_->Stop();
  if (reports_.joinable()) reports_.join();
}

void RemoteJobSession::Attach(std::weak_ptr<ViewListener> client) {
  std::shared_ptr<const v1::JobView> view;
  {
    MutexLock lock(mutex_);
    client_ = client;
    view = view_;
  }
  // A newer one may overtake this: the client ignores the older.
  if (const auto listener = client.lock()) (void)listener->OnView(std::move(view));
}

void RemoteJobSession::TakeEvent(const v1::WatchEvent& event) {
  if (!event.has_view()) return;
  auto view = std::make_shared<const v1::JobView>(event.view());
  std::shared_ptr<ViewListener> client;
  {
    MutexLock lock(mutex_);
    if (view_ != nullptr && view->version() <= view_->version()) return;
    view_ = view;
    was_member_ = was_member_ || InfoOf(*view, worker_).member;
    client = client_.lock();
    changed_.NotifyAll();
  }
  if (client == nullptr) return;
  if (absl::Status status = client->OnView(std::move(view)); !status.ok()) TakeEnd(status);
}

void RemoteJobSession::TakeEnd(const absl::Status& status) {
  MutexLock lock(mutex_);
  if (ended_.ok()) ended_ = status;
  changed_.NotifyAll();
}

JobInfo RemoteJobSession::InfoLocked() const {
  JobInfo info = InfoOf(*view_, worker_);
  info.member = info.member && ended_.ok();
  return info;
}

JobInfo RemoteJobSession::Info() const {
  MutexLock lock(mutex_);
  return InfoLocked();
}

absl::Status RemoteJobSession::CheckGoingOn(const JobInfo& info) const {
  WEIR_RETURN_IF_ERROR(CheckNotEnded(*view_));
  if (IsNotAMember(ended_)) return ended_;
  if (!ended_.ok()) return NotAMember(worker_, ended_.message());
  if (was_member_ && !info.member) return NotAMember(worker_, "the job's view no longer has it");
  return absl::OkStatus();
}

template <typename Request>
Request RemoteJobSession::InThisAttempt(Request request) const {
  MutexLock lock(mutex_);
  request.set_run_id(view_->run_id());
  request.set_worker(static_cast<uint64_t>(worker_));
  request.set_attempt(adopted_ != 0 ? adopted_ : view_->attempt());
  return request;
}

absl::Status RemoteJobSession::Declare(const Declaration& declaration) {
  v1::DeclareRequest request;
  *request.mutable_declaration() = ToProto(declaration);
  WEIR_RETURN_IF_ERROR(CheckWellFormed(request.declaration()));
  request.set_run_id(Info().run_id);
  request.set_worker(static_cast<uint64_t>(worker_));
  return session_->client().Call(&CoordinatorStub::Declare, request, In(kCallTimeout)).status();
}

absl::StatusOr<JobInfo> RemoteJobSession::AwaitReadyView(uint64_t newer_than, absl::Time deadline,
                                                         std::shared_ptr<const v1::JobView>& view) {
  MutexLock lock(mutex_);
  while (true) {
    const JobInfo info = InfoLocked();
    WEIR_RETURN_IF_ERROR(CheckGoingOn(info));
    if (IsReady(info) && view_->version() > newer_than) {
      view = view_;
      return info;
    }
    const absl::Duration left = deadline - options_.clock->Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat(
          "job '", view_->name(), "' is not ready: ", v1::JobState_Name(view_->state()),
          info.message.empty() ? "" : ", ", info.message));
    }
    changed_.WaitFor(mutex_, left);
  }
}

absl::StatusOr<JobInfo> RemoteJobSession::WaitUntilReady(absl::Duration timeout) {
  const absl::Time deadline = In(timeout);
  std::shared_ptr<ViewListener> client;
  {
    MutexLock lock(mutex_);
    client = client_.lock();
  }
  std::shared_ptr<const v1::JobView> view;
  uint64_t newer_than = 0;
  while (true) {
    WEIR_ASSIGN_OR_RETURN(JobInfo info, AwaitReadyView(newer_than, deadline, view));
    newer_than = view->version();
    // A server may have known of a rollback before this session does.
    if (client != nullptr && client->IsOver(info.attempt)) continue;
    if (client != nullptr) {
      // Perhaps the thread that brings views is not there yet.
      WEIR_RETURN_IF_ERROR(client->OnView(view));
      client->Adopt(info.attempt);
    }
    MutexLock lock(mutex_);
    if (std::exchange(adopted_, info.attempt) != info.attempt) step_ = 0;
    return info;
  }
}

absl::Status RemoteJobSession::ReportInitialised() {
  return session_->client()
      .Call(&CoordinatorStub::ReportInitialised, InThisAttempt(v1::ReportInitialisedRequest()),
            In(kCallTimeout))
      .status();
}

absl::Status RemoteJobSession::WaitForOtherAttempt(uint64_t attempt, absl::Duration timeout) {
  const absl::Time deadline = In(timeout);
  MutexLock lock(mutex_);
  while (view_->attempt() == attempt) {
    WEIR_RETURN_IF_ERROR(CheckGoingOn(InfoLocked()));
    const absl::Duration left = deadline - options_.clock->Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat("job '", view_->name(),
                                                      "' is still in attempt ", attempt, " after ",
                                                      absl::FormatDuration(timeout)));
    }
    changed_.WaitFor(mutex_, left);
  }
  return absl::OkStatus();
}

absl::StatusOr<BarrierResult> RemoteJobSession::Barrier(const std::string& name,
                                                        const std::map<std::string, double>& values,
                                                        const BarrierOptions& options) {
  auto request = InThisAttempt(v1::BarrierRequest());
  request.set_name(name);
  request.set_step(options.step);
  request.mutable_values()->insert(values.begin(), values.end());
  WEIR_ASSIGN_OR_RETURN(
      const v1::BarrierReply reply,
      session_->client().Call(&CoordinatorStub::Barrier, request, In(options.timeout)));
  return BarrierResult{{reply.sums().begin(), reply.sums().end()}, reply.members()};
}

uint64_t RemoteJobSession::ConsumedExamples() const {
  std::shared_ptr<ViewListener> client;
  {
    MutexLock lock(mutex_);
    client = client_.lock();
  }
  return client == nullptr ? 0 : client->acknowledged_examples();
}

v1::TakeRangesRequest RemoteJobSession::NextRangesRequest(uint64_t examples) {
  auto request = InThisAttempt(v1::TakeRangesRequest());
  request.set_examples(examples);
  request.set_consumed(ConsumedExamples());
  MutexLock lock(mutex_);
  if (ranges_attempt_ != request.attempt()) {
    ranges_attempt_ = request.attempt();
    ranges_.clear();
    ranges_request_ = 1;
  }
  request.set_request(ranges_request_);
  return request;
}

absl::StatusOr<TakenRanges> RemoteJobSession::KeepRanges(const v1::TakeRangesRequest& request,
                                                         const v1::TakeRangesReply& reply) {
  TakenRanges taken;
  taken.end_of_data = reply.end_of_data();
  MutexLock lock(mutex_);
  if (view_->attempt() != request.attempt()) {
    return StaleAttempt(request.attempt(), view_->attempt());
  }
  if (!reply.ranges().empty()) ++ranges_request_;
  for (const v1::DataRange& range : reply.ranges()) {
    ranges_.push_back(range);
    taken.ranges.push_back({range.epoch(), range.first(), range.end()});
  }
  return taken;
}

absl::StatusOr<TakenRanges> RemoteJobSession::TakeRanges(uint64_t examples,
                                                         absl::Duration timeout) {
  const absl::Time deadline = In(timeout);
  while (true) {
    const v1::TakeRangesRequest request = NextRangesRequest(examples);
    WEIR_ASSIGN_OR_RETURN(const v1::TakeRangesReply reply,
                          session_->client().Call(&CoordinatorStub::TakeRanges, request, deadline));
    WEIR_ASSIGN_OR_RETURN(TakenRanges taken, KeepRanges(request, reply));
    if (taken.end_of_data || !taken.ranges.empty()) return taken;
    {
      MutexLock lock(mutex_);
      WEIR_RETURN_IF_ERROR(CheckGoingOn(InfoLocked()));
    }
    const absl::Duration left = deadline - options_.clock->Now();
    if (!session_->client().Sleep(std::clamp(left, absl::ZeroDuration(), kRangesPoll))) {
      return absl::CancelledError("the session has ended");
    }
    if (left <= kRangesPoll) return taken;
  }
}

void RemoteJobSession::ReportProgress(const Progress& progress) {
  auto request = InThisAttempt(v1::ReportProgressRequest());
  v1::Progress& to = *request.mutable_progress();
  to.set_step(progress.step);
  to.set_examples(progress.examples);
  to.set_samples_per_second(progress.samples_per_second);
  to.set_staleness(progress.staleness);
  to.set_late_pushes(progress.late_pushes);
  to.set_consumed(ConsumedExamples());
  to.mutable_metrics()->insert(progress.metrics.begin(), progress.metrics.end());
  const StepSeconds& seconds = progress.step_seconds;
  const std::map<std::string, double> parts = {{"step_seconds/input", seconds.input},
                                               {"step_seconds/pull", seconds.pull},
                                               {"step_seconds/compute", seconds.compute},
                                               {"step_seconds/push", seconds.push},
                                               {"step_seconds/wait", seconds.wait}};
  to.mutable_metrics()->insert(parts.begin(), parts.end());
  MutexLock lock(mutex_);
  step_ = std::max(step_, progress.step);
  reported_ = request;
  progress_ = std::move(request);
  changed_.NotifyAll();
}

absl::StatusOr<std::string> RemoteJobSession::SaveCheckpoint(
    const std::map<std::string, double>& metrics) {
  v1::SaveCheckpointRequest request;
  request.set_run_id(Info().run_id);
  request.mutable_metrics()->insert(metrics.begin(), metrics.end());
  WEIR_ASSIGN_OR_RETURN(
      const v1::SaveCheckpointReply reply,
      session_->client().Call(&CoordinatorStub::SaveCheckpoint, request, In(kLongTimeout)));
  return reply.manifest().id();
}

v1::LeaveRequest RemoteJobSession::Farewell(bool finished, const std::string& reason) const {
  v1::LeaveRequest request;
  request.set_run_id(Info().run_id);
  request.set_worker(static_cast<uint64_t>(worker_));
  request.set_finished(finished);
  request.set_reason(reason);
  const uint64_t consumed = ConsumedExamples();
  MutexLock lock(mutex_);
  if (reported_.has_progress()) {
    request.set_attempt(reported_.attempt());
    *request.mutable_progress() = reported_.progress();
  }
  if (consumed == 0) return request;
  // Also what was pushed after that report.
  if (request.attempt() != adopted_) request.clear_progress();
  request.set_attempt(adopted_);
  v1::Progress& progress = *request.mutable_progress();
  progress.set_consumed(std::max(progress.consumed(), consumed));
  return request;
}

absl::Status RemoteJobSession::Leave(bool finished, const std::string& reason) {
  const absl::Status left = session_->Leave(Farewell(finished, reason), In(kCallTimeout)).status();
  TakeEnd(NotAMember(worker_, "it has left"));
  return left;
}

absl::StatusOr<bool> RemoteJobSession::LeaveToOthers(const std::string& reason) {
  const absl::Time deadline = In(kCallTimeout);
  v1::LeaveRequest request = Farewell(false, reason);
  request.set_unless_last(true);
  WEIR_ASSIGN_OR_RETURN(const v1::LeaveReply reply, session_->Leave(request, deadline));
  if (reply.last_in_view() == 0) {
    TakeEnd(NotAMember(worker_, "it has left"));
    return true;
  }
  MutexLock lock(mutex_);
  while (view_->version() < reply.last_in_view()) {
    WEIR_RETURN_IF_ERROR(CheckGoingOn(InfoLocked()));
    const absl::Duration left = deadline - options_.clock->Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat("no view of job '", view_->name(), "' without those who have left it"));
    }
    changed_.WaitFor(mutex_, left);
  }
  return false;
}

}  // namespace weir
