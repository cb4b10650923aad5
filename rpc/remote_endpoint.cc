// SPDX-License-Identifier: Apache-2.0
#include "rpc/remote_endpoint.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/grpc_status.h"
#include "rpc/deadlines.h"
#include "rpc/payload_codec.h"

namespace weir {
namespace {

constexpr char kHello[] = "/weir.v1.ParameterService/Hello";
constexpr char kPull[] = "/weir.v1.ParameterService/Pull";
constexpr char kPush[] = "/weir.v1.ParameterService/Push";
constexpr char kPushPull[] = "/weir.v1.ParameterService/PushPull";
constexpr char kAssign[] = "/weir.v1.ParameterService/Assign";
constexpr char kReduce[] = "/weir.v1.ParameterService/Reduce";

// A reply that does not parse is no fault of the caller's.
absl::StatusOr<Payload> DecodeReply(const absl::StatusOr<grpc::ByteBuffer>& reply,
                                    google::protobuf::Message& header) {
  if (!reply.ok()) return reply.status();
  absl::StatusOr<Payload> payload = DecodeMessage(*reply, header);
  if (absl::IsInvalidArgument(payload.status())) {
    return absl::InternalError(payload.status().message());
  }
  return payload;
}

template <typename Reply, typename Done>
auto WithoutPayload(Done done) {
  return [done = std::move(done)](absl::StatusOr<grpc::ByteBuffer> reply) mutable {
    Reply header;
    const absl::StatusOr<Payload> payload = DecodeReply(reply, header);
    if (payload.ok()) {
      std::move(done)(std::move(header));
    } else {
      std::move(done)(payload.status());
    }
  };
}

template <typename Result, typename Done>
auto WithPayload(Done done) {
  return [done = std::move(done)](absl::StatusOr<grpc::ByteBuffer> reply) mutable {
    Result result;
    absl::StatusOr<Payload> payload = DecodeReply(reply, result.header);
    if (payload.ok()) {
      result.payload = *std::move(payload);
      std::move(done)(std::move(result));
    } else {
      std::move(done)(payload.status());
    }
  };
}

// What gRPC says by itself names nobody; what the server says keeps its leading tag.
absl::Status WithAddress(const grpc::Status& status, const std::string& address) {
  const absl::Status plain = FromGrpcStatus(status);
  switch (plain.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      if (plain.message() == "Deadline Exceeded") {
        return absl::DeadlineExceededError(
            absl::StrCat("server ", address, " gave no answer in time"));
      }
      return plain;
    case absl::StatusCode::kCancelled:  // not by us: the server is going down
      return absl::UnavailableError(
          absl::StrCat("server ", address, " ended the call: ", plain.message()));
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnimplemented:
      return absl::Status(plain.code(), absl::StrCat(plain.message(), " (server ", address, ")"));
    default:
      return plain;
  }
}

}  // namespace

struct RemoteEndpoint::Call {
  // Shared with a destructor that cancels. It holds the channel, whose last owner must not be a
  // callback (gRPC 1.51 then frees the queue that the callback came from): so it goes before Finish
  // has.
  std::shared_ptr<grpc::ClientContext> context = std::make_shared<grpc::ClientContext>();
  grpc::ByteBuffer request;
  grpc::ByteBuffer reply;
  ReplyDone done;
};

RemoteEndpoint::RemoteEndpoint(std::shared_ptr<grpc::Channel> channel, Options options)
    : options_(std::move(options)), stub_(std::move(channel)) {}

RemoteEndpoint::~RemoteEndpoint() {
  std::vector<std::shared_ptr<grpc::ClientContext>> contexts;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    for (const std::shared_ptr<Call>& call : calls_) contexts.push_back(call->context);
  }
  for (const auto& context : contexts) context->TryCancel();
  contexts.clear();
  MutexLock lock(mutex_);
  while (running_ > 0) idle_.Wait(mutex_);
}

void RemoteEndpoint::Start(const char* method, const google::protobuf::Message& request,
                           Payload payload, absl::Time deadline, ReplyDone done) {
  absl::StatusOr<grpc::ByteBuffer> message = EncodeMessage(request, std::move(payload));
  if (!message.ok()) {
    std::move(done)(message.status());
    return;
  }
  auto call = std::make_shared<Call>();
  call->request.Swap(&*message);
  call->done = std::move(done);
  grpc::ClientContext* context = call->context.get();
  context->set_deadline(ToGrpcDeadline(deadline, *options_.clock));
  {
    MutexLock lock(mutex_);
    ++running_;
    calls_.insert(call);
  }
  stub_.UnaryCall(context, method, grpc::StubOptions(), &call->request, &call->reply,
                  [this, call](const grpc::Status& status) { Finish(call, status); });
}

void RemoteEndpoint::Finish(const std::shared_ptr<Call>& call, const grpc::Status& status) {
  bool stopping;
  std::shared_ptr<grpc::ClientContext> context;
  {
    MutexLock lock(mutex_);
    calls_.erase(call);
    context = std::move(call->context);
    stopping = stopping_;
  }
  call->request.Clear();
  if (status.ok()) {
    std::move(call->done)(std::move(call->reply));
  } else if (stopping) {
    std::move(call->done)(
        absl::CancelledError(absl::StrCat("the connection to ", options_.address, " was closed")));
  } else {
    std::move(call->done)(WithAddress(status, options_.address));
  }
  call->done = nullptr;  // what these hold goes before the destructor may return
  context.reset();
  MutexLock lock(mutex_);
  if (--running_ == 0) idle_.NotifyAll();
}

void RemoteEndpoint::Hello(const v1::HelloRequest& request, absl::Time deadline, HelloDone done) {
  Start(kHello, request, Payload(), deadline, WithoutPayload<v1::HelloReply>(std::move(done)));
}

void RemoteEndpoint::Pull(const v1::PullRequest& request, absl::Time deadline, PullDone done) {
  Start(kPull, request, Payload(), deadline, WithPayload<PullResult>(std::move(done)));
}

void RemoteEndpoint::Push(const v1::PushRequest& request, Payload payload, absl::Time deadline,
                          PushDone done) {
  Start(kPush, request, std::move(payload), deadline,
        WithoutPayload<v1::PushReply>(std::move(done)));
}

void RemoteEndpoint::PushPull(const v1::PushRequest& request, Payload payload, absl::Time deadline,
                              PullDone done) {
  Start(kPushPull, request, std::move(payload), deadline, WithPayload<PullResult>(std::move(done)));
}

void RemoteEndpoint::Assign(const v1::AssignRequest& request, Payload payload, absl::Time deadline,
                            AssignDone done) {
  Start(kAssign, request, std::move(payload), deadline,
        WithoutPayload<v1::AssignReply>(std::move(done)));
}

void RemoteEndpoint::Reduce(const v1::ReduceRequest& request, Payload payload, absl::Time deadline,
                            ReduceDone done) {
  Start(kReduce, request, std::move(payload), deadline, WithPayload<ReduceResult>(std::move(done)));
}

}  // namespace weir
