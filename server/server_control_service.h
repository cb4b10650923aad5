// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/server_callback.h>

#include "common/clock.h"
#include "common/executor.h"
#include "server/checkpoint_parts.h"
#include "server/parameter_server.h"
#include "server/term_record.h"
#include "weir/v1/server_control.grpc.pb.h"

namespace weir {

// What the coordinator asks of this server, over gRPC. Each call is checked against the highest
// term, then runs on the executor: it may write to the disk. Thread-safe.
class ServerControlService final : public v1::ServerControl::CallbackService {
 public:
  // All must outlive the service.
  struct Options {
    ParameterServer* server = nullptr;
    TermRecord* terms = nullptr;
    Executor* executor = nullptr;      // may be blocked for as long as a checkpoint takes
    CheckpointParts* parts = nullptr;  // null: this server has no checkpoints
    const Clock* clock = &Clock::Real();
    // With a FetchPart whose reader stands still.
    absl::Duration fetch_patience = absl::Seconds(30);
  };

  explicit ServerControlService(Options options) : options_(options) {}

  grpc::ServerUnaryReactor* PrepareStep(grpc::CallbackServerContext* context,
                                        const v1::PrepareStepRequest* request,
                                        v1::PrepareStepReply* reply) override;
  grpc::ServerUnaryReactor* CommitStep(grpc::CallbackServerContext* context,
                                       const v1::CommitStepRequest* request,
                                       v1::CommitStepReply* reply) override;
  grpc::ServerUnaryReactor* AbortStep(grpc::CallbackServerContext* context,
                                      const v1::AbortStepRequest* request,
                                      v1::AbortStepReply* reply) override;
  grpc::ServerUnaryReactor* SavePart(grpc::CallbackServerContext* context,
                                     const v1::SavePartRequest* request,
                                     v1::SavePartReply* reply) override;
  grpc::ServerUnaryReactor* Restore(grpc::CallbackServerContext* context,
                                    const v1::RestoreRequest* request,
                                    v1::RestoreReply* reply) override;
  grpc::ServerWriteReactor<v1::FetchPartReply>* FetchPart(
      grpc::CallbackServerContext* context, const v1::FetchPartRequest* request) override;
  grpc::ServerUnaryReactor* DropPart(grpc::CallbackServerContext* context,
                                     const v1::DropPartRequest* request,
                                     v1::DropPartReply* reply) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainRequest* request, v1::DrainReply* reply) override;

 private:
  // Runs `core(finish)` on the executor where the request's term is not below the highest; `finish`
  // takes the call's status, once.
  template <typename Request, typename Core>
  grpc::ServerUnaryReactor* Start(grpc::CallbackServerContext* context, const Request* request,
                                  Core core);

  const Options options_;
};

}  // namespace weir
