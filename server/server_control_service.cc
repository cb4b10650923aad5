// SPDX-License-Identifier: Apache-2.0
#include "server/server_control_service.h"

#include <utility>

#include "common/grpc_status.h"
#include "rpc/deadlines.h"
#include "server/part_stream.h"

namespace weir {
namespace {

using Finish = absl::AnyInvocable<void(const absl::Status&) &&>;

absl::Status NoCheckpoints() {
  return absl::UnimplementedError("this server keeps no checkpoints");
}

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
                                                         v1::SavePartReply* reply) {
  const absl::Time deadline = FromGrpcDeadline(context->deadline(), *options_.clock);
  return Start(context, request, [this, request, reply, deadline](Finish finish) {
    if (options_.parts == nullptr) return std::move(finish)(NoCheckpoints());
    options_.parts->saver().Save(
        *options_.server, *request, deadline,
        [reply, finish = std::move(finish)](absl::StatusOr<v1::SavePartReply> saved) mutable {
          if (saved.ok()) *reply = *std::move(saved);
          std::move(finish)(saved.status());
        });
  });
}

grpc::ServerUnaryReactor* ServerControlService::Restore(grpc::CallbackServerContext* context,
                                                        const v1::RestoreRequest* request,
                                                        v1::RestoreReply*) {
  const absl::Time deadline = FromGrpcDeadline(context->deadline(), *options_.clock);
  return Start(context, request, [this, request, deadline](Finish finish) {
    if (options_.parts == nullptr) return std::move(finish)(NoCheckpoints());
    options_.parts->restorer().Restore(
        *options_.server, *request, deadline,
        [finish = std::move(finish)](const absl::StatusOr<v1::RestoreReply>& restored) mutable {
          std::move(finish)(restored.status());
        });
  });
}

grpc::ServerWriteReactor<v1::FetchPartReply>* ServerControlService::FetchPart(
    grpc::CallbackServerContext* context, const v1::FetchPartRequest* request) {
  // Deletes itself, as gRPC's reactors do.
  auto* stream = new PartStream(context, *options_.clock, options_.fetch_patience);
  if (options_.parts == nullptr) {
    stream->Finish(ToGrpcStatus(NoCheckpoints()));
    return stream;
  }
  options_.parts->serving().Run([this, request, stream] {
    absl::Status status = options_.terms->Admit(request->term());
    if (status.ok()) {
      status = options_.parts->fetcher().Fetch(*request,
                                               [stream](uint64_t chunk, absl::string_view record) {
                                                 return stream->Write(chunk, record);
                                               });
    }
    stream->Finish(ToGrpcStatus(status));
  });
  return stream;
}

grpc::ServerUnaryReactor* ServerControlService::DropPart(grpc::CallbackServerContext* context,
                                                         const v1::DropPartRequest* request,
                                                         v1::DropPartReply*) {
  return Start(context, request, [this, request](Finish finish) {
    if (options_.parts == nullptr) return std::move(finish)(NoCheckpoints());
    // Open files would keep the space of a part that is gone.
    options_.parts->fetcher().Close();
    std::move(finish)(options_.parts->saver().Drop(*request));
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
