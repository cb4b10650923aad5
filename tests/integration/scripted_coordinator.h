// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/grpc_status.h"
#include "common/mutex.h"
#include "weir/v1/coordinator.grpc.pb.h"

namespace weir {

// Answers as told. Thread-safe.
class ScriptedCoordinator final : public v1::CoordinatorService::Service {
 public:
  grpc::Status RegisterServer(grpc::ServerContext*, const v1::RegisterServerRequest* request,
                              v1::RegisterServerReply* reply) override {
    MutexLock lock(mutex_);
    if (!register_status_.ok()) return ToGrpcStatus(register_status_);
    ++registrations_;
    last_server_ = request->server().name();
    reply->set_term(term_);
    reply->set_heartbeat_ms(5);
    return grpc::Status::OK;
  }
  grpc::Status Register(grpc::ServerContext*, const v1::RegisterRequest*,
                        v1::RegisterReply* reply) override {
    MutexLock lock(mutex_);
    if (!register_status_.ok()) return ToGrpcStatus(register_status_);
    ++registrations_;
    reply->set_run_id(42);
    reply->set_rank(3);
    reply->set_term(term_);
    reply->set_heartbeat_ms(5);
    return grpc::Status::OK;
  }
  grpc::Status Heartbeat(grpc::ServerContext*, const v1::HeartbeatRequest* request,
                         v1::HeartbeatReply* reply) override {
    MutexLock lock(mutex_);
    ++heartbeats_;
    last_attempt_ = request->attempt();
    last_step_ = request->step();
    last_memory_bytes_ = request->report().memory_bytes();
    const absl::Status status = std::exchange(heartbeat_status_, absl::OkStatus());
    reply->set_term(term_);
    return ToGrpcStatus(status);
  }
  grpc::Status Leave(grpc::ServerContext*, const v1::LeaveRequest* request,
                     v1::LeaveReply* reply) override {
    MutexLock lock(mutex_);
    reply->set_last_in_view(request->unless_last() ? 5 : 0);
    left_ = !request->unless_last();
    return grpc::Status::OK;
  }
  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::WatchEvent>* writer) override {
    size_t next = 0;
    MutexLock lock(mutex_);
    ++watches_;
    watched_run_ = request->run_id();
    while (!context->IsCancelled() && !ending_watches_) {
      if (next < events_.size()) {
        const v1::WatchEvent event = events_[next++];
        mutex_.Unlock();
        writer->Write(event);
        mutex_.Lock();
      } else {
        changed_.WaitFor(mutex_, absl::Milliseconds(5));
      }
    }
    return grpc::Status::OK;
  }

  void SendView(uint64_t term, uint64_t version) {
    v1::WatchEvent event;
    event.set_term(term);
    event.mutable_view()->set_version(version);
    MutexLock lock(mutex_);
    events_.push_back(event);
    changed_.NotifyAll();
  }
  void RefuseRegistration(const absl::Status& status) {
    MutexLock lock(mutex_);
    register_status_ = status;
  }
  void FailOneHeartbeat(const absl::Status& status) {
    MutexLock lock(mutex_);
    heartbeat_status_ = status;
  }
  void EndWatches() {
    MutexLock lock(mutex_);
    ending_watches_ = true;
    changed_.NotifyAll();
  }

#define WEIR_GETTER(type, name) \
  type name() {                 \
    MutexLock lock(mutex_);     \
    return name##_;             \
  }
  WEIR_GETTER(int, registrations)
  WEIR_GETTER(int, heartbeats)
  WEIR_GETTER(int, watches)
  WEIR_GETTER(uint64_t, last_attempt)
  WEIR_GETTER(uint64_t, last_step)
  WEIR_GETTER(uint64_t, watched_run)
  WEIR_GETTER(uint64_t, last_memory_bytes)
  WEIR_GETTER(bool, left)
  WEIR_GETTER(std::string, last_server)
#undef WEIR_GETTER

 private:
  Mutex mutex_;
  CondVar changed_;
  uint64_t term_ ABSL_GUARDED_BY(mutex_) = 7;
  int registrations_ ABSL_GUARDED_BY(mutex_) = 0;
  int heartbeats_ ABSL_GUARDED_BY(mutex_) = 0;
  int watches_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_attempt_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_step_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t watched_run_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_memory_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_watches_ ABSL_GUARDED_BY(mutex_) = false;
  std::string last_server_ ABSL_GUARDED_BY(mutex_);
  absl::Status register_status_ ABSL_GUARDED_BY(mutex_);
  absl::Status heartbeat_status_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::WatchEvent> events_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
