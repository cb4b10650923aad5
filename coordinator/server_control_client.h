// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/client_context.h>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "common/clock.h"
#include "common/mutex.h"
#include "coordinator/server_control_transport.h"
#include "weir/v1/server_control.grpc.pb.h"

namespace weir {

// The transport over gRPC: one channel an address, kept while it is used. Thread-safe.
class ServerControlClient final : public ServerControlTransport {
 public:
  explicit ServerControlClient(const Clock& clock) : clock_(clock) {}
  ~ServerControlClient() override { Stop(); }

  // Cancels what is under way, and waits until all of it has called back and let go of what it
  // held; every later call ends in Cancelled at once.
  void Stop();

  void PrepareStep(const v1::ServerInfo& server, const v1::PrepareStepRequest& request,
                   absl::Duration timeout, Done<v1::PrepareStepReply> done) override;
  void CommitStep(const v1::ServerInfo& server, const v1::CommitStepRequest& request,
                  absl::Duration timeout, Done<v1::CommitStepReply> done) override;
  void AbortStep(const v1::ServerInfo& server, const v1::AbortStepRequest& request,
                 absl::Duration timeout, Done<v1::AbortStepReply> done) override;
  void SavePart(const v1::ServerInfo& server, const v1::SavePartRequest& request,
                absl::Duration timeout, Done<v1::SavePartReply> done) override;
  void Restore(const v1::ServerInfo& server, const v1::RestoreRequest& request,
               absl::Duration timeout, Done<v1::RestoreReply> done) override;
  void DropPart(const v1::ServerInfo& server, const v1::DropPartRequest& request,
                absl::Duration timeout, Done<v1::DropPartReply> done) override;

 private:
  using Async = v1::ServerControl::StubInterface::async_interface;
  // Shared with the calls under way.
  using SharedStub = std::shared_ptr<v1::ServerControl::Stub>;

  template <typename Request, typename Reply, typename Method>
  void Call(const v1::ServerInfo& server, const Request& request, absl::Duration timeout,
            Done<Reply> done, Method method);
  absl::StatusOr<SharedStub> StubOf(const v1::ServerInfo& server);
  // False: cancelled already.
  bool Begin(grpc::ClientContext* context);
  void End(std::unique_ptr<grpc::ClientContext> context);

  const Clock& clock_;
  Mutex mutex_;
  CondVar ended_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<grpc::ClientContext*> contexts_ ABSL_GUARDED_BY(mutex_);  // of these, to be cancelled
  // By server name, with the address that it was dialled at.
  std::map<std::string, std::pair<std::string, SharedStub>> stubs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
