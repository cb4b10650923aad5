// SPDX-License-Identifier: Apache-2.0
#include "server/server_control_service.h"

#include <utility>

#include "common/grpc_status.h"

namespace weir {
namespace {

using Finish = absl::AnyInvocable<void(const absl::Status&) &&>;

}  // namespace

template <typename Request, typename Core>
grpc::ServerUnaryReactor* ServerControlService::Start(grpc::CallbackServerContext* context,
                                                      const Request* request, Core core) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  options_.executor->Run([this, request, reactor, core = std::move(core)]() mutable {
    const absl::Status admitted = options_.terms->Admit(request->term());
    if (!admitted.ok()) {
      reactor->Finish(ToGrpcStatus(admitted));
      return;
    }
    core(Finish([reactor](const absl::Status& status) { reactor->Finish(ToGrpcStatus(status)); }));
  });
  return reactor;
}

grpc::ServerUnaryReactor* ServerControlService::PrepareStep(grpc::CallbackServerContext* context,
                                                            const v1::PrepareStepRequest* request,
                                                            v1::PrepareStepReply* reply) {
  return Start(context, request, [this, request, reply](Finish finish) {
    absl::StatusOr<v1::PrepareStepReply> prepared = options_.server->PrepareStep(*request);
    if (prepared.ok()) *reply = *std::move(prepared);
    std::move(finish)(prepared.status());
  });
}

grpc::ServerUnaryReactor* ServerControlService::CommitStep(grpc::CallbackServerContext* context,
                                                           const v1::CommitStepRequest* request,
                                                           v1::CommitStepReply*) {
  return Start(context, request, [this, request](Finish finish) {
    std::move(finish)(options_.server->CommitStep(*request));
  });
}

grpc::ServerUnaryReactor* ServerControlService::AbortStep(grpc::CallbackServerContext* context,
                                                          const v1::AbortStepRequest* request,
                                                          v1::AbortStepReply*) {
  return Start(context, request, [this, request](Finish finish) {
    std::move(finish)(options_.server->AbortStep(*request));
  });
}

grpc::ServerUnaryReactor* ServerControlService::SavePart(grpc::CallbackServerContext* context,
                                                         const v1::SavePartRequest* request,
                                                         v1::SavePartReply*) {
  return Start(context, request, [](Finish finish) {
    std::move(finish)(absl::UnimplementedError("this server cannot save checkpoints yet"));
  });
}

grpc::ServerUnaryReactor* ServerControlService::Restore(grpc::CallbackServerContext* context,
                                                        const v1::RestoreRequest* request,
                                                        v1::RestoreReply*) {
  return Start(context, request, [](Finish finish) {
    std::move(finish)(absl::UnimplementedError("this server cannot restore checkpoints yet"));
  });
}

grpc::ServerUnaryReactor* ServerControlService::Drain(grpc::CallbackServerContext* context,
                                                      const v1::DrainRequest* request,
                                                      v1::DrainReply*) {
  return Start(context, request, [this](Finish finish) {
    options_.server->Drain(
        [finish = std::move(finish)]() mutable { std::move(finish)(absl::OkStatus()); });
  });
}

}  // namespace weir
