// SPDX-License-Identifier: Apache-2.0
#include "coordinator/coordinator_service.h"

#include <algorithm>
#include <utility>

#include "common/grpc_status.h"
#include "rpc/deadlines.h"

namespace weir {
namespace {

// What ends a call with the core's answer. gRPC keeps reactor and reply until Finish.
template <typename Reply>
Coordinator::Done<Reply> FinishWith(grpc::ServerUnaryReactor* reactor, Reply* reply) {
  return [reactor, reply](absl::StatusOr<Reply> answer) {
    if (answer.ok()) *reply = *std::move(answer);
    reactor->Finish(ToGrpcStatus(answer.status()));
  };
}

grpc::Status Stopping() {
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the coordinator is shutting down; try again");
}

}  // namespace

#define WEIR_FORWARD(Name)                                                          \
  grpc::ServerUnaryReactor* CoordinatorService::Name(                               \
      Context* context, const v1::Name##Request* request, v1::Name##Reply* reply) { \
    Unary* reactor = context->DefaultReactor();                                     \
    coordinator_->Name(*request, FinishWith(reactor, reply));                       \
    return reactor;                                                                 \
  }
// The same for calls that wait, up to the caller's deadline.
#define WEIR_FORWARD_WITH_DEADLINE(Name)                                            \
  grpc::ServerUnaryReactor* CoordinatorService::Name(                               \
      Context* context, const v1::Name##Request* request, v1::Name##Reply* reply) { \
    Unary* reactor = context->DefaultReactor();                                     \
    coordinator_->Name(*request, FromGrpcDeadline(context->deadline(), clock_),     \
                       FinishWith(reactor, reply));                                 \
    return reactor;                                                                 \
  }

WEIR_FORWARD(RegisterServer)
WEIR_FORWARD(Register)
WEIR_FORWARD(Heartbeat)
WEIR_FORWARD(Leave)
WEIR_FORWARD(Declare)
WEIR_FORWARD(ReportInitialised)
WEIR_FORWARD_WITH_DEADLINE(Barrier)
WEIR_FORWARD(TakeRanges)
WEIR_FORWARD(ReportProgress)
WEIR_FORWARD(ReportCut)
WEIR_FORWARD_WITH_DEADLINE(SaveCheckpoint)
WEIR_FORWARD(ListCheckpoints)
WEIR_FORWARD(ListJobs)
WEIR_FORWARD(ShowJob)
WEIR_FORWARD(StopJob)
WEIR_FORWARD(Status)

#undef WEIR_FORWARD_WITH_DEADLINE
#undef WEIR_FORWARD

grpc::ServerWriteReactor<v1::WatchEvent>* CoordinatorService::Watch(
    Context*, const v1::WatchRequest* request) {
  const std::shared_ptr<WatchStream> stream = WatchStream::Start(coordinator_, *request);
  bool ending = false;
  {
    MutexLock lock(mutex_);
    ending = ending_;
    streams_.erase(std::remove_if(streams_.begin(), streams_.end(),
                                  [](const auto& other) { return other.expired(); }),
                   streams_.end());
    streams_.push_back(stream);
  }
  if (ending) stream->End(Stopping());
  return stream.get();
}

void CoordinatorService::EndWatches() {
  std::vector<std::weak_ptr<WatchStream>> streams;
  {
    MutexLock lock(mutex_);
    ending_ = true;
    streams.swap(streams_);
  }
  for (const auto& weak : streams) {
    if (const auto stream = weak.lock()) stream->End(Stopping());
  }
}

}  // namespace weir
