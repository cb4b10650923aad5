// SPDX-License-Identifier: Apache-2.0
#include "rpc/coordinator_session.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "rpc/backoff.h"
#include "rpc/outage_log.h"

namespace weir {
namespace {

// Answers to a registration that no repetition can change.
bool IsRefusal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorSession>> CoordinatorSession::Create(Options options) {
  if (static_cast<bool>(options.server) == static_cast<bool>(options.worker)) {
    return absl::InvalidArgumentError("a session is either a server's or a worker's");
  }
  if (options.incarnation == 0 || options.clock == nullptr || !options.on_event) {
    return absl::InvalidArgumentError("a session needs an incarnation, a clock and on_event");
  }
  WEIR_ASSIGN_OR_RETURN(
      std::unique_ptr<CoordinatorClient> client,
      CoordinatorClient::Create(
          {.address = options.address, .clock = options.clock, .seed = options.seed}));
  return std::unique_ptr<CoordinatorSession>(
      new CoordinatorSession(std::move(options), std::move(client)));
}

CoordinatorSession::CoordinatorSession(Options options, std::unique_ptr<CoordinatorClient> client)
    : options_(std::move(options)), client_(std::move(client)) {}

CoordinatorSession::~CoordinatorSession() {
  Stop();
}

void CoordinatorSession::Start() {
  membership_ = std::thread([this] { RunMembership(); });
  watch_ = std::thread([this] { RunWatch(); });
}

void CoordinatorSession::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  client_->Cancel();
  if (membership_.joinable()) membership_.join();
  if (watch_.joinable()) watch_.join();
}

void CoordinatorSession::RunMembership() {
  Backoff backoff(*options_.clock, {.seed = options_.seed + 1});
  OutageLog outages;
  const std::string coordinator = absl::StrCat("coordinator ", options_.address);
  absl::Duration pause;
  do {
    bool registered;
    {
      MutexLock lock(mutex_);
      if (!going_on()) return;
      registered = registered_;
    }
    const absl::Status status = registered ? SendHeartbeat() : Register();
    const absl::Time now = options_.clock->Now();
    const bool away = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
    const auto reason = absl::StripPrefix(status.message(), coordinator + ": ");
    Warn(away ? outages.Fail(coordinator, reason, now, absl::InfiniteFuture())
              : outages.Succeed(coordinator, now));
    if (status.ok()) {
      backoff.Reset();
    } else {
      TakeFailure(status, registered);
    }
    MutexLock lock(mutex_);
    pause = status.ok() || registered ? heartbeat_ : backoff.Next();
  } while (client_->Sleep(pause));
}

absl::Status CoordinatorSession::Register() {
  return is_server() ? RegisterServer() : RegisterWorker();
}

absl::Status CoordinatorSession::RegisterServer() {
  const absl::Time deadline = options_.clock->Now() + options_.call_timeout;
  WEIR_ASSIGN_OR_RETURN(
      const v1::RegisterServerReply reply,
      client_->CallOnce(&CoordinatorStub::RegisterServer, options_.server(), deadline));
  v1::RegisterReply as_member;
  as_member.set_lease_ms(reply.lease_ms());
  as_member.set_heartbeat_ms(reply.heartbeat_ms());
  as_member.set_term(reply.term());
  return TakeRegistration(as_member);
}

absl::Status CoordinatorSession::RegisterWorker() {
  const absl::Time deadline = options_.clock->Now() + options_.call_timeout;
  WEIR_ASSIGN_OR_RETURN(const v1::RegisterReply reply,
                        client_->CallOnce(&CoordinatorStub::Register, options_.worker(), deadline));
  return TakeRegistration(reply);
}

absl::Status CoordinatorSession::TakeRegistration(const v1::RegisterReply& reply) {
  {
    MutexLock lock(mutex_);
    if (run_id_ != 0 && run_id_ != reply.run_id()) {
      return absl::FailedPreconditionError(
          "the coordinator has forgotten this worker's run and started another one");
    }
    run_id_ = reply.run_id();
    registered_ = true;
    if (reply.heartbeat_ms() > 0) heartbeat_ = absl::Milliseconds(reply.heartbeat_ms());
    term_ = std::max(term_, reply.term());
    changed_.NotifyAll();
  }
  client_->EndWatches();  // of an earlier registration: a new one brings all views at once
  return absl::OkStatus();
}

absl::Status CoordinatorSession::SendHeartbeat() {
  v1::HeartbeatRequest request;
  request.set_incarnation(options_.incarnation);
  if (options_.step) {
    const WorkerStep reached = options_.step();
    request.set_attempt(reached.attempt);
    request.set_step(reached.step);
  }
  if (options_.report) *request.mutable_report() = options_.report();
  {
    MutexLock lock(mutex_);
    request.set_run_id(run_id_);
  }
  const absl::Time deadline = options_.clock->Now() + options_.call_timeout;
  WEIR_ASSIGN_OR_RETURN(const v1::HeartbeatReply reply,
                        client_->CallOnce(&CoordinatorStub::Heartbeat, request, deadline));
  if (options_.on_reported) options_.on_reported(request.report());
  MutexLock lock(mutex_);
  term_ = std::max(term_, reply.term());
  return absl::OkStatus();
}

void CoordinatorSession::TakeFailure(const absl::Status& status, bool was_registered) {
  {
    MutexLock lock(mutex_);
    if (!going_on()) return;
    last_failure_ = status;
  }
  if (!was_registered) {
    if (IsRefusal(status)) End(status);
  } else if (absl::IsNotFound(status)) {
    ForgetRegistration();
  } else if (absl::IsAborted(status)) {
    // A server joins again and learns from the views what it has lost; a worker's steps are over.
    is_server() ? ForgetRegistration() : End(status);
  }
}

void CoordinatorSession::Warn(const std::string& warning) const {
  if (warning.empty()) return;
  if (options_.warn) {
    options_.warn(warning);
  } else {
    spdlog::warn("{}", warning);
  }
}

void CoordinatorSession::ForgetRegistration() {
  MutexLock lock(mutex_);
  registered_ = false;
}

void CoordinatorSession::End(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    if (!going_on()) return;
    ended_ = status;
    changed_.NotifyAll();
  }
  client_->EndWatches();
  if (options_.on_ended) options_.on_ended(status);
}

void CoordinatorSession::RunWatch() {
  Backoff backoff(*options_.clock, {.seed = options_.seed + 2});
  while (const auto request = AwaitRegistration()) {
    const absl::Status status = client_->Watch(*request, [&](const v1::WatchEvent& event) {
      backoff.Reset();
      return TakeEvent(event);
    });
    if (absl::IsNotFound(status)) ForgetRegistration();
    if (!client_->Sleep(backoff.Next())) return;
  }
}

std::optional<v1::WatchRequest> CoordinatorSession::AwaitRegistration() {
  MutexLock lock(mutex_);
  while (going_on() && !registered_) changed_.Wait(mutex_);
  if (!going_on()) return std::nullopt;
  v1::WatchRequest request;
  request.set_incarnation(options_.incarnation);
  request.set_run_id(run_id_);
  return request;
}

bool CoordinatorSession::TakeEvent(const v1::WatchEvent& event) {
  {
    MutexLock lock(mutex_);
    // A coordinator of a lower term has been replaced and does not know it yet.
    if (!going_on() || event.term() < term_) return false;
    term_ = event.term();
  }
  options_.on_event(event);
  return true;
}

absl::Status CoordinatorSession::WaitUntilRegistered(absl::Time deadline) {
  MutexLock lock(mutex_);
  while (going_on() && !registered_) {
    const absl::Duration left = deadline - options_.clock->Now();
    if (left <= absl::ZeroDuration()) {
      return absl::UnavailableError(
          absl::StrCat("not registered with the coordinator at ", options_.address,
                       " in time; last answer: ", last_failure_.ToString()));
    }
    changed_.WaitFor(mutex_, left);
  }
  if (!ended_.ok()) return ended_;
  if (!going_on()) return absl::CancelledError("the session with the coordinator was stopped");
  return absl::OkStatus();
}

absl::StatusOr<v1::LeaveReply> CoordinatorSession::Leave(const v1::LeaveRequest& request,
                                                         absl::Time deadline) {
  if (!request.unless_last()) EndMembership();
  WEIR_ASSIGN_OR_RETURN(const v1::LeaveReply reply,
                        client_->Call(&CoordinatorStub::Leave, request, deadline));
  if (reply.last_in_view() == 0) EndMembership();
  return reply;
}

void CoordinatorSession::EndMembership() {
  {
    MutexLock lock(mutex_);
    left_ = true;
    changed_.NotifyAll();
  }
  client_->EndWatches();
}

uint64_t CoordinatorSession::term() const {
  MutexLock lock(mutex_);
  return term_;
}

absl::Status CoordinatorSession::ended() const {
  MutexLock lock(mutex_);
  return ended_;
}

}  // namespace weir
