// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <memory>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "rpc/parameter_endpoint.h"

namespace weir {

// A server elsewhere, over gRPC. A payload's owners are released when gRPC has let go of the bytes,
// which may be a little after `done` where a call failed: whoever takes its memory back waits for
// the release. Besides the statuses of parameter_server.proto: Unavailable - no connection, or it
// broke; DeadlineExceeded - no answer until a second after the deadline; Cancelled - this is being
// destroyed; InvalidArgument - the message would be too large; Internal - the server's reply is
// malformed. Messages of the transport name the server's address. Thread-safe.
class RemoteEndpoint final : public ParameterEndpoint {
 public:
  struct Options {
    std::string address;           // for messages
    const Clock* clock = nullptr;  // of the deadlines; must outlive this
  };

  RemoteEndpoint(std::shared_ptr<grpc::Channel> channel, Options options);
  // Cancels what is in flight and waits until every `done` has returned: so never call it from one.
  ~RemoteEndpoint() override;

  void Hello(const v1::HelloRequest& request, absl::Time deadline, HelloDone done) override;
  void Pull(const v1::PullRequest& request, absl::Time deadline, PullDone done) override;
  void Push(const v1::PushRequest& request, Payload payload, absl::Time deadline,
            PushDone done) override;
  void PushPull(const v1::PushRequest& request, Payload payload, absl::Time deadline,
                PullDone done) override;
  void Assign(const v1::AssignRequest& request, Payload payload, absl::Time deadline,
              AssignDone done) override;
  void Reduce(const v1::ReduceRequest& request, Payload payload, absl::Time deadline,
              ReduceDone done) override;

 private:
  struct Call;
  using ReplyDone = absl::AnyInvocable<void(absl::StatusOr<grpc::ByteBuffer>) &&>;

  void Start(const char* method, const google::protobuf::Message& request, Payload payload,
             absl::Time deadline, ReplyDone done);
  void Finish(const std::shared_ptr<Call>& call, const grpc::Status& status);

  const Options options_;
  grpc::GenericStub stub_;
  Mutex mutex_;
  CondVar idle_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;  // calls whose `done` has not returned
  // Shared: gRPC's callback and a destructor that cancels may both be the last to need a call.
  absl::flat_hash_set<std::shared_ptr<Call>> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
