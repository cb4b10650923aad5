// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>

#include <memory>
#include <vector>

#include "common/clock.h"
#include "common/mutex.h"
#include "coordinator/coordinator.h"
#include "coordinator/watch_stream.h"
#include "weir/v1/coordinator.grpc.pb.h"

namespace weir {

// CoordinatorService over gRPC: converts, calls the core, converts back. Thread-safe.
class CoordinatorService final : public v1::CoordinatorService::CallbackService {
 public:
  // `clock` must outlive this.
  CoordinatorService(std::shared_ptr<Coordinator> coordinator, const Clock& clock)
      : coordinator_(std::move(coordinator)), clock_(clock) {}

  // Ends all Watch streams with UNAVAILABLE: the watchers dial again.
  void EndWatches();

  using Context = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;
  Unary* RegisterServer(Context* context, const v1::RegisterServerRequest* request,
                        v1::RegisterServerReply* reply) override;
  Unary* Register(Context* context, const v1::RegisterRequest* request,
                  v1::RegisterReply* reply) override;
  Unary* Heartbeat(Context* context, const v1::HeartbeatRequest* request,
                   v1::HeartbeatReply* reply) override;
  Unary* Leave(Context* context, const v1::LeaveRequest* request, v1::LeaveReply* reply) override;
  grpc::ServerWriteReactor<v1::WatchEvent>* Watch(Context* context,
                                                  const v1::WatchRequest* request) override;
  Unary* Declare(Context* context, const v1::DeclareRequest* request,
                 v1::DeclareReply* reply) override;
  Unary* ReportInitialised(Context* context, const v1::ReportInitialisedRequest* request,
                           v1::ReportInitialisedReply* reply) override;
  Unary* Barrier(Context* context, const v1::BarrierRequest* request,
                 v1::BarrierReply* reply) override;
  Unary* TakeRanges(Context* context, const v1::TakeRangesRequest* request,
                    v1::TakeRangesReply* reply) override;
  Unary* ReportProgress(Context* context, const v1::ReportProgressRequest* request,
                        v1::ReportProgressReply* reply) override;
  Unary* ReportCut(Context* context, const v1::ReportCutRequest* request,
                   v1::ReportCutReply* reply) override;
  Unary* SaveCheckpoint(Context* context, const v1::SaveCheckpointRequest* request,
                        v1::SaveCheckpointReply* reply) override;
  Unary* ListCheckpoints(Context* context, const v1::ListCheckpointsRequest* request,
                         v1::ListCheckpointsReply* reply) override;
  Unary* ListJobs(Context* context, const v1::ListJobsRequest* request,
                  v1::ListJobsReply* reply) override;
  Unary* ShowJob(Context* context, const v1::ShowJobRequest* request,
                 v1::ShowJobReply* reply) override;
  Unary* StopJob(Context* context, const v1::StopJobRequest* request,
                 v1::StopJobReply* reply) override;
  Unary* Status(Context* context, const v1::StatusRequest* request,
                v1::StatusReply* reply) override;

 private:
  const std::shared_ptr<Coordinator> coordinator_;
  const Clock& clock_;
  Mutex mutex_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<WatchStream>> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
