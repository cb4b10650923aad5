// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "client/push_ledger.h"
#include "client/routes.h"
#include "client/transfer.h"
#include "client/view_listener.h"
#include "common/clock.h"
#include "common/executor.h"
#include "common/mutex.h"
#include "rpc/outage_log.h"
#include "weir/parameter_client.h"

namespace weir {

// Moves variables between one process and a job's servers: cuts transfers into messages, keeps each
// server's credit full and no more, sends again what was not answered, and follows the job's views.
// Everything happens in calls and callbacks; it has no thread. Thread-safe.
//
// A transfer runs in the attempt that was adopted last: a view of a newer one ends it with Aborted,
// so that a worker cannot push into an attempt that it does not know of.
class TransferEngine final : public ViewListener,
                             public std::enable_shared_from_this<TransferEngine> {
 public:
  using Done = Transfer::Done;
  using Connect =
      std::function<absl::StatusOr<std::shared_ptr<ParameterEndpoint>>(const v1::ServerInfo&)>;

  struct Options {
    WorkerId worker = WorkerId::kReader;  // a reader follows all attempts
    const Clock* clock = nullptr;         // must outlive the engine
    Executor* executor = nullptr;         // the same
    Connect connect;
    // A cut has been marked; must not block. May be null.
    std::function<void(const CutReport&)> report_cut;
    // Told a line for people while a server has failed for long; must not block. May be null.
    std::function<void(const std::string&)> warn;
    absl::Duration rpc_timeout = absl::Seconds(30);  // of one message; then it is sent again
    absl::Duration view_poll = absl::Seconds(1);     // to ask again where no newer view has come
    uint64_t seed = 0;                               // of the jitter
  };

  static std::shared_ptr<TransferEngine> Create(Options options);

  // ViewListener. Views older than the one known are ignored.
  absl::Status OnView(std::shared_ptr<const v1::JobView> view) override;
  void Adopt(uint64_t attempt) override;
  bool IsOver(uint64_t attempt) const override;
  uint64_t acknowledged_examples() const override;
  uint64_t next_step() const override;

  // Each calls `done` once, on any thread, perhaps before it returns; `done` must not block. The
  // caller's memory is in use until then.
  void StartPull(absl::Span<const PullItem> into, const PullOptions& options, Done done);
  void StartPush(absl::Span<const PushItem> items, absl::Span<const PullItem> into,
                 const PushOptions& options, Done done);
  void StartAssign(absl::Span<const PushItem> values, absl::Duration timeout, Done done);
  void StartReduce(absl::Span<const std::byte> data, const ReduceOptions& options,
                   std::vector<std::byte>& result, Done done);

  // Ends every transfer with Cancelled, and waits for that. Nothing can be started afterwards.
  void Shutdown();

 private:
  struct PayloadHold;
  using LaneKey = std::pair<uint64_t, std::string>;  // incarnation, address
  // Of a message: what goes before its payload.
  using Header =
      std::variant<v1::PullRequest, v1::PushRequest, v1::AssignRequest, v1::ReduceRequest>;

  // What is done once the lock is let go.
  struct Effects {
    std::vector<std::pair<Done, absl::StatusOr<TransferResult>>> finished;
    std::vector<std::shared_ptr<Lane>> to_pump;
    std::vector<std::shared_ptr<ParameterEndpoint>> to_close;
    std::optional<CutReport> cut;
    std::vector<std::string> warnings;
  };

  explicit TransferEngine(Options options) : options_(std::move(options)) {}
  void Perform(Effects effects);

  // Starting and ending (transfer_engine.cc).
  absl::StatusOr<std::shared_ptr<const Routes>> RoutesToUse() const;
  absl::Status CheckUsable() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<Transfer> NewTransfer(std::string what, absl::Duration timeout, Done done) const;
  absl::Status BeginPush(Transfer& transfer, const PushOptions& options)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Begin(const std::shared_ptr<Transfer>& transfer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Expire(const std::shared_ptr<Transfer>& transfer);
  void Fail(const std::shared_ptr<Transfer>& transfer, const absl::Status& status, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailAll(const absl::Status& status, Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropUnsent(const Transfer& transfer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishIfDone(const std::shared_ptr<Transfer>& transfer, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What its time has gone into.
  void NoteSent(Transfer& transfer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteAnswer(Transfer& transfer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MeasureTimes(Transfer& transfer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string ServersWaitedFor(const Transfer& transfer) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Collectives (transfer_reduce.cc).
  absl::Status BeginReduce(Transfer& transfer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeReduce(WireMessage* message, absl::StatusOr<ReduceResult> answer);
  void TakeAgreement(const WireMessage& message, const ReduceResult& answer, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Views (transfer_views.cc).
  void TakeView(std::shared_ptr<const Routes> routes, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status EndedBy(const Routes& routes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MarkCut(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RouteUnsentAnew(uint64_t former_map, Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const v1::ServerInfo& ServerOf(Call call, const Piece& piece) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Distribute(const std::shared_ptr<Transfer>& transfer, Call call,
                  absl::Span<const Piece> pieces, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<Lane> LaneOf(const v1::ServerInfo& server) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Sending (transfer_send.cc).
  void Pump(const std::shared_ptr<Lane>& lane);
  void Greet(const std::shared_ptr<Lane>& lane);
  void TakeGreeting(const std::shared_ptr<Lane>& lane, const absl::StatusOr<v1::HelloReply>& reply);
  void Rest(const std::shared_ptr<Lane>& lane, const absl::Status& why, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  WireMessage* NextMessage(const std::shared_ptr<Lane>& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  WireMessage* Cut(const std::shared_ptr<Lane>& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Send(WireMessage* message);
  v1::RequestContext ContextOf(const WireMessage& message) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Header HeaderOf(const WireMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename Request>
  Request WithSegments(const WireMessage& message, Request request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::PushRequest PushHeaderOf(const WireMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Payload PayloadOf(const WireMessage& message);
  bool Pumping() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The versions of a piece's chunks, as pulled last; empty where the layout has changed meanwhile.
  absl::Span<uint64_t> VersionsOf(const Routes& routes, const Piece& piece)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Answers (transfer_answer.cc).
  void TakePull(WireMessage* message, absl::StatusOr<PullResult> answer);
  void TakePush(WireMessage* message, const absl::Status& status, const v1::PushOutcome& outcome);
  void TakeReply(WireMessage& message, const PullResult& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountPush(WireMessage& message, const v1::PushOutcome& outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeFailure(WireMessage* message, const absl::Status& status, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `until`: when what has failed is given up.
  void NoteFailure(const Lane& lane, const absl::Status& why, absl::Time until, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteSuccess(const Lane& lane, Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WaitToResend(WireMessage* message, MessageState state, absl::Duration delay)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Resend(uint64_t message);
  void Requeue(WireMessage* message, Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Settle(WireMessage* message, Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountOwnUpdate(const WireMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeRelease(const std::shared_ptr<Transfer>& transfer);

  bool follows_attempts() const { return options_.worker == WorkerId::kReader; }

  const Options options_;
  mutable Mutex mutex_;
  CondVar idle_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const Routes> routes_ ABSL_GUARDED_BY(mutex_);
  uint64_t attempt_ ABSL_GUARDED_BY(mutex_) = 0;  // adopted; 0: none yet
  uint64_t over_ ABSL_GUARDED_BY(mutex_) = 0;     // the newest attempt that a server called over
  PushLedger ledger_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> have_versions_ ABSL_GUARDED_BY(mutex_);  // by chunk; 0: not pulled yet
  absl::flat_hash_set<std::shared_ptr<Transfer>> transfers_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_collective_ ABSL_GUARDED_BY(mutex_) = 0;  // sequence
  // The step whose collective 0 has been answered, and the generation in which: 0: none.
  uint64_t open_step_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t step_generation_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_message_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, std::unique_ptr<WireMessage>> messages_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<LaneKey, std::shared_ptr<Lane>> lanes_ ABSL_GUARDED_BY(mutex_);
  OutageLog outages_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
