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

auto AnswerPull(std::shared_ptr<RawCall> call) {
  return [call = std::move(call)](absl::StatusOr<PullResult> result) {
    result.ok() ? call->Answer(result->header, std::move(result->payload))
                : call->Fail(result.status());
  };
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
  const std::shared_ptr<RawCall> call = RawCall::Start(reply);
  v1::PullRequest header;
  const absl::StatusOr<Payload> nothing = DecodeMessage(*request, header);
  if (nothing.ok()) {
    endpoint_.Pull(header, Deadline(*context), AnswerPull(call));
  } else {
    call->Fail(nothing.status());
  }
  return call.get();
}

grpc::ServerUnaryReactor* ParameterService::Push(grpc::CallbackServerContext* context,
                                                 const grpc::ByteBuffer* request,
                                                 grpc::ByteBuffer* reply) {
  const std::shared_ptr<RawCall> call = RawCall::Start(reply);
  v1::PushRequest header;
  absl::StatusOr<Payload> payload = DecodeMessage(*request, header);
  if (payload.ok()) {
    endpoint_.Push(header, *std::move(payload), Deadline(*context), AnswerHeader(call));
  } else {
    call->Fail(payload.status());
  }
  return call.get();
}

grpc::ServerUnaryReactor* ParameterService::PushPull(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* reply) {
  const std::shared_ptr<RawCall> call = RawCall::Start(reply);
  v1::PushRequest header;
  absl::StatusOr<Payload> payload = DecodeMessage(*request, header);
  if (payload.ok()) {
    endpoint_.PushPull(header, *std::move(payload), Deadline(*context), AnswerPull(call));
  } else {
    call->Fail(payload.status());
  }
  return call.get();
}

grpc::ServerUnaryReactor* ParameterService::Assign(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* reply) {
  const std::shared_ptr<RawCall> call = RawCall::Start(reply);
  v1::AssignRequest header;
  absl::StatusOr<Payload> payload = DecodeMessage(*request, header);
  if (payload.ok()) {
    endpoint_.Assign(header, *std::move(payload), Deadline(*context), AnswerHeader(call));
  } else {
    call->Fail(payload.status());
  }
  return call.get();
}

grpc::ServerUnaryReactor* ParameterService::Reduce(grpc::CallbackServerContext* context,
                                                   const v1::ReduceRequest*, v1::ReduceReply*) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(
      grpc::Status(grpc::StatusCode::UNIMPLEMENTED,
                   "this server has no collectives yet; they come with the replicator"));
  return reactor;
}

}  // namespace weir
