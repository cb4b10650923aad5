// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/routed_parameter_client.h"
#include "client/transfer_engine.h"
#include "common/clock.h"
#include "common/executor.h"
#include "common/mutex.h"
#include "server/parameter_server.h"
#include "tests/support/hand_made_view.h"
#include "tests/support/unreliable_endpoint.h"

namespace weir {

// The place of one server: calls reach whatever server is there now, or answer Unavailable.
// Thread-safe.
class ServerPlace final : public ParameterEndpoint {
 public:
  void Put(std::shared_ptr<ParameterServer> server);
  std::shared_ptr<ParameterServer> server() const;

  void Hello(const v1::HelloRequest& request, absl::Time deadline, HelloDone done) override;
  void Pull(const v1::PullRequest& request, absl::Time deadline, PullDone done) override;
  void Push(const v1::PushRequest& request, Payload payload, absl::Time deadline,
            PushDone done) override;
  void PushPull(const v1::PushRequest& request, Payload payload, absl::Time deadline,
                PullDone done) override;
  void Assign(const v1::AssignRequest& request, Payload payload, absl::Time deadline,
              AssignDone done) override;
  void Reduce(const v1::ReduceRequest& request, Payload payload, absl::Time deadline,
              ReduceDone done) override;

 private:
  mutable Mutex mutex_;
  std::shared_ptr<ParameterServer> server_ ABSL_GUARDED_BY(mutex_);
};

// A job of several workers over server objects in this process, its views made by hand in place of
// a coordinator. Real threads and real time. Used from the thread of the test.
class HandMadeJob {
 public:
  struct Options {
    Declaration declaration;
    v1::Regime regime = v1::REGIME_ASYNC;
    v1::RegimeSpec regime_options;  // HandMadeView
    bool deterministic = false;
    size_t workers = 1;
    size_t servers = 1;
    bool over_grpc = false;
    UnreliableEndpoint::Options network;  // all zero: nothing happens
    uint64_t shard_bytes = 0;
    uint64_t chunk_bytes = 0;
  };

  // Ready for Assign: the job initialises, and every client has adopted attempt 1.
  explicit HandMadeJob(Options options);
  ~HandMadeJob();

  ParameterClient& client(size_t worker) { return *clients_[worker]; }
  // A client that is no member.
  std::unique_ptr<ParameterClient> NewReader();
  uint64_t incarnation(size_t worker) const { return worker + 1; }

  // INITIALISING -> RUNNING.
  void Run();
  // A new generation without the worker.
  void Remove(size_t worker);
  // The server loses all it had; nobody is told before Publish.
  void Restart(size_t server);
  // A view of a new attempt with the servers as they are now.
  void RollBack();
  void Adopt(size_t worker) { engines_[worker]->Adopt(view_.attempt); }
  ParameterServer& server(size_t server) { return *places_[server]->server(); }

 private:
  struct Serving;
  std::shared_ptr<TransferEngine> NewEngine(uint64_t worker);
  std::shared_ptr<ParameterServer> NewServer(size_t server, uint64_t incarnation);
  void Publish();

  const Options options_;
  const std::unique_ptr<Executor> executor_;
  HandMadeView view_;
  std::vector<std::unique_ptr<ServerPlace>> places_;
  std::vector<std::unique_ptr<Serving>> serving_;  // over gRPC
  std::vector<std::shared_ptr<UnreliableEndpoint>> networks_;
  std::vector<std::shared_ptr<TransferEngine>> engines_;
  std::vector<std::unique_ptr<ParameterClient>> clients_;
};

}  // namespace weir
