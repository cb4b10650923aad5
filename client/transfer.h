// SPDX-License-Identifier: Apache-2.0
// What the transfer engine works on: transfers, their messages, and the servers' lanes.
//
//   Transfer (one call of the user)
//     Batch: pieces for one server  --TakeMessage-->  WireMessage: in flight, or to be sent again
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/collective_transfer.h"
#include "client/message_cutter.h"
#include "client/routes.h"
#include "common/executor.h"
#include "rpc/backoff.h"
#include "rpc/parameter_endpoint.h"
#include "weir/v1/parameter_server.pb.h"

namespace weir {

enum class Call { kPull, kPush, kPushPull, kAssign, kReduce };

struct TransferResult {
  uint64_t examples = 0;              // highest that the pulled weights have had applied
  std::vector<uint64_t> group_steps;  // highest before a pull's step, by group
  uint64_t bytes = 0;                 // of payload, both ways
  uint64_t staleness = 0;
  uint64_t slowest_step = 0;
  bool late = false;
  uint64_t next_step = 0;
  uint64_t next_group_step = 0;
  uint64_t push_messages = 0;
  uint64_t repeated_messages = 0;  // of them, those all of whose chunks had been counted before
  ReduceStats reduced;
  absl::Duration sending, waiting, receiving;  // PushStats has them
};

// One operation. Guarded by the engine's mutex.
struct Transfer {
  using Done = absl::AnyInvocable<void(absl::StatusOr<TransferResult>) &&>;

  // Constant.
  std::string what;  // for messages: "push 7 of group 1 (step 6)"
  bool pushes = false;
  v1::PushRequest push;  // of a push: the header without context and segments
  uint64_t pull_step = 0;
  std::unique_ptr<CollectiveTransfer> collective;  // null: it is none
  uint64_t attempt = 0;
  absl::Time started;
  absl::Time deadline;

  // When the transport took, or had written, the last payload before the first answer came; and
  // when that was.
  absl::Time sent;
  absl::Time answered = absl::InfiniteFuture();
  Done done;
  std::vector<Piece> afterwards;  // to be pulled when every push is acknowledged
  size_t open = 0;                // batches and messages that are not done
  size_t holds = 0;               // messages whose payload the transport has not let go of
  absl::Status status;
  bool expired = false;
  std::string waited_for;    // the servers that had not answered when the time was up
  std::string last_problem;  // the last answer that was not the end
  TimerId timer = TimerId::kNone;
  TransferResult result;
};

// Pieces of a transfer on their way to one server.
struct Batch {
  std::shared_ptr<Transfer> transfer;
  Call call = Call::kPull;
  std::deque<Piece> pieces;
};

enum class MessageState { kQueued, kInFlight, kBackingOff, kAwaitingView };

struct Lane;

struct WireMessage {
  uint64_t id = 0;
  std::shared_ptr<Transfer> transfer;
  Call call = Call::kPull;
  std::vector<Piece> pieces;
  uint64_t bytes = 0;  // counted against the server's credit
  MessageState state = MessageState::kQueued;
  std::shared_ptr<Lane> lane;
  std::shared_ptr<const Routes> routes;  // under which it was sent last
  TimerId timer = TimerId::kNone;
  std::unique_ptr<Backoff> backoff;  // from the first failure on
};

// The way to one life of one server.
//
//   kNew --(work)--> kGreeting --(Hello answered)--> kOpen
//     ^------(timer)---- kResting <--(failed)--|
struct Lane {
  enum class State { kNew, kGreeting, kResting, kOpen };

  v1::ServerInfo server;                        // constant
  std::shared_ptr<ParameterEndpoint> endpoint;  // shared with calls being made

  State state = State::kNew;
  std::unique_ptr<Backoff> backoff;
  uint64_t credit_bytes = 0;
  uint64_t payload_bytes = 0;
  uint64_t in_flight_bytes = 0;  // with those that back off: their turn is kept
  size_t calls = 0;              // being made or waited for
  // One thread sends, so that endpoints that answer inside a call cannot make the stack grow.
  bool pumping = false;
  std::deque<WireMessage*> again;
  std::deque<Batch> fresh;

  bool has_work() const { return !again.empty() || !fresh.empty(); }
};

}  // namespace weir
