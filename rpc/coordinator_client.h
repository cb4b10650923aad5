// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "weir/v1/coordinator.grpc.pb.h"

namespace weir {

using CoordinatorStub = v1::CoordinatorService::StubInterface;

// Blocking calls to the coordinator. While it is away a call is repeated, with backoff, until its
// deadline; every call to it is idempotent, so a repetition is safe. Thread-safe.
class CoordinatorClient {
 public:
  struct Options {
    std::string address;           // HOST:PORT
    const Clock* clock = nullptr;  // must outlive this
    uint64_t seed = 0;             // of the jitter between repetitions
  };
  template <typename Request, typename Reply>
  using Method = grpc::Status (CoordinatorStub::*)(grpc::ClientContext*, const Request&, Reply*);

  // Errors: InvalidArgument - the address. Does not wait for the coordinator to be there.
  static absl::StatusOr<std::unique_ptr<CoordinatorClient>> Create(Options options);
  // Every call must have returned: Cancel() first.
  ~CoordinatorClient();

  // Call(&CoordinatorStub::Declare, request, deadline).
  // Errors: the coordinator's own; Unavailable - it was not there until the deadline (names its
  // address); DeadlineExceeded - it did not answer in time; Cancelled - Cancel() was called.
  template <typename Request, typename Reply>
  absl::StatusOr<Reply> Call(Method<Request, Reply> method, const Request& request,
                             absl::Time deadline) {
    Reply reply;
    const absl::Status status = Repeat(deadline, [&](grpc::ClientContext& context) {
      reply.Clear();
      return (*stub_.*method)(&context, request, &reply);
    });
    if (!status.ok()) return status;
    return reply;
  }
  // The same, once.
  template <typename Request, typename Reply>
  absl::StatusOr<Reply> CallOnce(Method<Request, Reply> method, const Request& request,
                                 absl::Time deadline) {
    Reply reply;
    const absl::Status status = Once(deadline, [&](grpc::ClientContext& context) {
      return (*stub_.*method)(&context, request, &reply);
    });
    if (!status.ok()) return status;
    return reply;
  }

  // Reads one Watch stream until it ends or `on_event` returns false, on this thread.
  // Errors: as for Call; Unavailable - the stream ended.
  absl::Status Watch(const v1::WatchRequest& request,
                     const std::function<bool(const v1::WatchEvent&)>& on_event);

  // Ends the Watch streams that are open. Does not block.
  void EndWatches();
  // Ends all calls, present and future, with Cancelled. Does not block.
  void Cancel();
  // Waits for `duration`, and attends to the connection meanwhile. False: cancelled.
  bool Sleep(absl::Duration duration);

  const std::string& address() const { return options_.address; }

 private:
  using Attempt = std::function<grpc::Status(grpc::ClientContext&)>;

  CoordinatorClient(Options options, std::shared_ptr<grpc::Channel> channel);
  absl::Status Repeat(absl::Time deadline, const Attempt& attempt);
  absl::Status Once(absl::Time deadline, const Attempt& attempt);
  // Runs `attempt` such that Cancel() reaches it.
  enum class Kind { kUnary, kWatch };
  absl::Status Run(Kind kind, grpc::ClientContext& context, const Attempt& attempt);
  uint64_t NextSeed();

  const Options options_;
  const std::unique_ptr<CoordinatorStub> stub_;
  Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t repeated_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<grpc::ClientContext*, Kind> running_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<grpc::Alarm*> sleeping_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
