// SPDX-License-Identifier: Apache-2.0
#include "coordinator/server_control_client.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/grpc_status.h"
#include "common/status_macros.h"
#include "rpc/channels.h"
#include "rpc/deadlines.h"

namespace weir {
namespace {

// A call under way: gRPC's callback owns it. Context and stub hold the channel, whose last owner
// must not be a callback (remote_endpoint.cc), so they go before the client may.
template <typename Request, typename Reply>
struct Flight {
  std::unique_ptr<grpc::ClientContext> context = std::make_unique<grpc::ClientContext>();
  Request request;
  Reply reply;
  ServerControlTransport::Done<Reply> done;
  std::shared_ptr<v1::ServerControl::Stub> stub;
};

}  // namespace

void ServerControlClient::Stop() {
  MutexLock lock(mutex_);
  cancelled_ = true;
  // TryCancel does not call back on this thread.
  for (grpc::ClientContext* context : contexts_) context->TryCancel();
  while (under_way_ > 0) ended_.Wait(mutex_);
}

bool ServerControlClient::Begin(grpc::ClientContext* context) {
  MutexLock lock(mutex_);
  if (cancelled_) return false;
  contexts_.insert(context);
  ++under_way_;
  return true;
}

void ServerControlClient::End(std::unique_ptr<grpc::ClientContext> context) {
  {
    MutexLock lock(mutex_);
    contexts_.erase(context.get());
  }
  context.reset();
  MutexLock lock(mutex_);
  // Under the lock: the destructor may end as soon as it is free.
  if (--under_way_ == 0) ended_.NotifyAll();
}

absl::StatusOr<ServerControlClient::SharedStub> ServerControlClient::StubOf(
    const v1::ServerInfo& server) {
  MutexLock lock(mutex_);
  auto& [address, stub] = stubs_[server.name()];
  if (stub == nullptr || address != server.address()) {
    WEIR_ASSIGN_OR_RETURN(const auto channel, Dial(server.address()));
    stub = v1::ServerControl::NewStub(channel);
    address = server.address();
  }
  return stub;
}

template <typename Request, typename Reply, typename Method>
void ServerControlClient::Call(const v1::ServerInfo& server, const Request& request,
                               absl::Duration timeout, Done<Reply> done, Method method) {
  const absl::StatusOr<SharedStub> stub = StubOf(server);
  auto flight = std::make_shared<Flight<Request, Reply>>();
  grpc::ClientContext* context = flight->context.get();
  if (!stub.ok() || !Begin(context)) {
    std::move(done)(stub.ok() ? absl::CancelledError("the coordinator stops") : stub.status());
    return;
  }
  flight->request = request;
  flight->done = std::move(done);
  flight->stub = *stub;
  context->set_deadline(ToGrpcDeadline(clock_.Now() + timeout, clock_));
  ((*stub)->async()->*method)(context, &flight->request, &flight->reply,
                              [this, flight](const grpc::Status& ended) {
                                const absl::Status status = FromGrpcStatus(ended);
                                if (status.ok()) {
                                  std::move(flight->done)(std::move(flight->reply));
                                } else {
                                  std::move(flight->done)(status);
                                }
                                flight->done = nullptr;
                                flight->stub.reset();
                                End(std::move(flight->context));
                              });
}

#define WEIR_CONTROL_METHOD(Name)                                                               \
  static_cast<void (Async::*)(grpc::ClientContext*, const v1::Name##Request*, v1::Name##Reply*, \
                              std::function<void(grpc::Status)>)>(&Async::Name)

void ServerControlClient::PrepareStep(const v1::ServerInfo& server,
                                      const v1::PrepareStepRequest& request, absl::Duration timeout,
                                      Done<v1::PrepareStepReply> done) {
  Call(server, request, timeout, std::move(done), WEIR_CONTROL_METHOD(PrepareStep));
}
void ServerControlClient::CommitStep(const v1::ServerInfo& server,
                                     const v1::CommitStepRequest& request, absl::Duration timeout,
                                     Done<v1::CommitStepReply> done) {
  Call(server, request, timeout, std::move(done), WEIR_CONTROL_METHOD(CommitStep));
}
void ServerControlClient::AbortStep(const v1::ServerInfo& server,
                                    const v1::AbortStepRequest& request, absl::Duration timeout,
                                    Done<v1::AbortStepReply> done) {
  Call(server, request, timeout, std::move(done), WEIR_CONTROL_METHOD(AbortStep));
}
void ServerControlClient::SavePart(const v1::ServerInfo& server, const v1::SavePartRequest& request,
                                   absl::Duration timeout, Done<v1::SavePartReply> done) {
  Call(server, request, timeout, std::move(done), WEIR_CONTROL_METHOD(SavePart));
}
void ServerControlClient::Restore(const v1::ServerInfo& server, const v1::RestoreRequest& request,
                                  absl::Duration timeout, Done<v1::RestoreReply> done) {
  Call(server, request, timeout, std::move(done), WEIR_CONTROL_METHOD(Restore));
}
void ServerControlClient::DropPart(const v1::ServerInfo& server, const v1::DropPartRequest& request,
                                   absl::Duration timeout, Done<v1::DropPartReply> done) {
  Call(server, request, timeout, std::move(done), WEIR_CONTROL_METHOD(DropPart));
}

#undef WEIR_CONTROL_METHOD

}  // namespace weir
