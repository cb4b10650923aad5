// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "rpc/coordinator_client.h"
#include "weir/v1/coordinator.pb.h"

namespace weir {

// A worker's step in the attempt that it knows of; attempt 0: it knows of none yet.
struct WorkerStep {
  uint64_t attempt = 0;
  uint64_t step = 0;
};

// Membership of one process: registers it, sends its heartbeats, and brings it the coordinator's
// views. A coordinator that is away changes nothing but that views are late: the session keeps
// trying, without end, and registers again where the coordinator has forgotten it. Thread-safe.
//
//   Start --> registering --(reply)--> registered --(lease ended, worker)--> ended
//                 ^   |                    |   ^
//       (refused) |   v                    |   | heartbeats; Watch, opened again when it breaks
//               ended                      v   |
//                 registering <--(NOT_FOUND; lease ended, server)
class CoordinatorSession {
 public:
  struct Options {
    std::string address;           // of the coordinator, HOST:PORT
    const Clock* clock = nullptr;  // must outlive the session
    uint64_t incarnation = 0;      // of this process
    uint64_t seed = 0;             // of the jitter between attempts
    absl::Duration call_timeout = absl::Seconds(5);

    // Exactly one of these two makes the request, each time the session registers.
    std::function<v1::RegisterServerRequest()> server;
    std::function<v1::RegisterRequest()> worker;
    // How far a worker has come, for heartbeats; may be null.
    std::function<WorkerStep()> step;
    // What a server's heartbeats report, and that the coordinator has it; may be null.
    std::function<v1::ServerReport()> report;
    std::function<void(const v1::ServerReport&)> on_reported;

    // Each event of Watch with a term not below the highest seen. Called on the session's watch
    // thread, one at a time; must not block for long, nor stop the session.
    std::function<void(const v1::WatchEvent&)> on_event;
    // The session has ended by itself: registration was refused, or a worker's lease or run is
    // over. Called once at most, on one of the session's threads; may be null.
    std::function<void(const absl::Status&)> on_ended;
    // Told a line for people while the coordinator has been away for long, and when it is back.
    // Called on the membership thread; null: it goes to the log.
    std::function<void(const std::string&)> warn;
  };

  // Errors: InvalidArgument - the address, or the options. Nothing runs before Start().
  static absl::StatusOr<std::unique_ptr<CoordinatorSession>> Create(Options options);
  // Stops.
  ~CoordinatorSession();

  void Start();
  // Ends heartbeats, stream and calls, and joins the session's threads. Bounded: waits for nobody
  // else but a callback that is running. Idempotent. Not to be called from a callback.
  void Stop();

  // Waits until registered.
  // Errors: what ended the session; Unavailable - not by `deadline`, with the last failure;
  // Cancelled - stopped.
  absl::Status WaitUntilRegistered(absl::Time deadline);

  // The highest term seen; 0: none yet.
  uint64_t term() const;
  // Why the session has ended; OK while it goes on.
  absl::Status ended() const;

  // A member's farewell: no more heartbeats, nor a new registration, then Leave. Of a worker that
  // may stay (unless_last), Leave is first. Errors: as CoordinatorClient::Call.
  absl::StatusOr<v1::LeaveReply> Leave(const v1::LeaveRequest& request, absl::Time deadline);

  // Calls of the member's own: client().Call(&CoordinatorStub::Barrier, request, deadline).
  CoordinatorClient& client() { return *client_; }

 private:
  CoordinatorSession(Options options, std::unique_ptr<CoordinatorClient> client);

  void RunMembership();
  void RunWatch();
  // One attempt each.
  absl::Status Register();
  absl::Status RegisterServer();
  absl::Status RegisterWorker();
  absl::Status SendHeartbeat();
  absl::Status TakeRegistration(const v1::RegisterReply& reply);
  void TakeFailure(const absl::Status& status, bool was_registered);
  void Warn(const std::string& warning) const;
  bool TakeEvent(const v1::WatchEvent& event);
  void ForgetRegistration();
  void EndMembership();
  void End(const absl::Status& status);
  // What to watch, once registered. None: the session is over.
  std::optional<v1::WatchRequest> AwaitRegistration();
  bool going_on() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !stopping_ && !left_ && ended_.ok();
  }
  bool is_server() const { return static_cast<bool>(options_.server); }

  const Options options_;
  const std::unique_ptr<CoordinatorClient> client_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  bool registered_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration heartbeat_ ABSL_GUARDED_BY(mutex_) = absl::Seconds(1);
  uint64_t run_id_ ABSL_GUARDED_BY(mutex_) = 0;  // of a worker that has registered once
  uint64_t term_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
  absl::Status last_failure_ ABSL_GUARDED_BY(mutex_);
  std::thread membership_;
  std::thread watch_;
};

}  // namespace weir
