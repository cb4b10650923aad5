// SPDX-License-Identifier: Apache-2.0
#include "server/parameter_service.h"

#include <utility>

#include "common/grpc_status.h"
#include "rpc/deadlines.h"
#include "rpc/payload_codec.h"
#include "server/raw_call.h"

namespace weir {
namespace {

// How a call is answered once the endpoint is done.
auto AnswerHeader(std::shared_ptr<RawCall> call) {
  return [call = std::move(call)](const auto& reply) {
    reply.ok() ? call->Answer(*reply, Payload()) : call->Fail(reply.status());
  };
}

template <typename Result>
auto AnswerWithPayload(std::shared_ptr<RawCall> call) {
  return [call = std::move(call)](absl::StatusOr<Result> result) {
    result.ok() ? call->Answer(result->header, std::move(result->payload))
                : call->Fail(result.status());
  };
}

// Decodes a message with a payload and hands it to `handle`, which answers the call.
template <typename Header, typename Handle>
grpc::ServerUnaryReactor* Decoded(const grpc::ByteBuffer& request, grpc::ByteBuffer* reply,
                                  Handle handle) {
  const std::shared_ptr<RawCall> call = RawCall::Start(reply);
  Header header;
  absl::StatusOr<Payload> payload = DecodeMessage(request, header);
  if (payload.ok()) {
    handle(header, *std::move(payload), call);
  } else {
    call->Fail(payload.status());
  }
  return call.get();
}

}  // namespace

absl::Time ParameterService::Deadline(const grpc::CallbackServerContext& context) const {
  return FromGrpcDeadline(context.deadline(), clock_);
}

grpc::ServerUnaryReactor* ParameterService::Hello(grpc::CallbackServerContext* context,
                                                  const v1::HelloRequest* request,
                                                  v1::HelloReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  endpoint_.Hello(*request, Deadline(*context),
                  [reactor, reply](absl::StatusOr<v1::HelloReply> answer) {
                    if (answer.ok()) *reply = *std::move(answer);
                    reactor->Finish(ToGrpcStatus(answer.status()));
                  });
  return reactor;
}

grpc::ServerUnaryReactor* ParameterService::Pull(grpc::CallbackServerContext* context,
                                                 const grpc::ByteBuffer* request,
                                                 grpc::ByteBuffer* reply) {
  return Decoded<v1::PullRequest>(*request, reply, [&](const auto& header, Payload, auto call) {
    endpoint_.Pull(header, Deadline(*context), AnswerWithPayload<PullResult>(call));
  });
}

grpc::ServerUnaryReactor* ParameterService::Push(grpc::CallbackServerContext* context,
                                                 const grpc::ByteBuffer* request,
                                                 grpc::ByteBuffer* reply) {
  return Decoded<v1::PushRequest>(
      *request, reply, [&](const auto& header, Payload payload, auto call) {
        endpoint_.Push(header, std::move(payload), Deadline(*context), AnswerHeader(call));
      });
}

grpc::ServerUnaryReactor* ParameterService::PushPull(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* reply) {
  return Decoded<v1::PushRequest>(
      *request, reply, [&](const auto& header, Payload payload, auto call) {
        endpoint_.PushPull(header, std::move(payload), Deadline(*context),
                           AnswerWithPayload<PullResult>(call));
      });
}

grpc::ServerUnaryReactor* ParameterService::Assign(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* reply) {
  return Decoded<v1::AssignRequest>(
      *request, reply, [&](const auto& header, Payload payload, auto call) {
        endpoint_.Assign(header, std::move(payload), Deadline(*context), AnswerHeader(call));
      });
}

grpc::ServerUnaryReactor* ParameterService::Reduce(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* reply) {
  return Decoded<v1::ReduceRequest>(
      *request, reply, [&](const auto& header, Payload payload, auto call) {
        endpoint_.Reduce(header, std::move(payload), Deadline(*context),
                         AnswerWithPayload<ReduceResult>(call));
      });
}

}  // namespace weir
