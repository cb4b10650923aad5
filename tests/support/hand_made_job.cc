// SPDX-License-Identifier: Apache-2.0
#include "tests/support/hand_made_job.h"

#include <gtest/gtest.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/remote_connect.h"
#include "rpc/channels.h"
#include "server/parameter_service.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

absl::Status NobodyThere() {
  return absl::UnavailableError("connection refused");
}

}  // namespace

void ServerPlace::Put(std::shared_ptr<ParameterServer> server) {
  MutexLock lock(mutex_);
  server_.swap(server);
}
std::shared_ptr<ParameterServer> ServerPlace::server() const {
  MutexLock lock(mutex_);
  return server_;
}
void ServerPlace::Hello(const v1::HelloRequest& request, absl::Time deadline, HelloDone done) {
  const auto there = server();
  if (there == nullptr) return std::move(done)(NobodyThere());
  there->Hello(request, deadline, std::move(done));
}
void ServerPlace::Pull(const v1::PullRequest& request, absl::Time deadline, PullDone done) {
  const auto there = server();
  if (there == nullptr) return std::move(done)(NobodyThere());
  there->Pull(request, deadline, std::move(done));
}
void ServerPlace::Push(const v1::PushRequest& request, Payload payload, absl::Time deadline,
                       PushDone done) {
  const auto there = server();
  if (there == nullptr) return std::move(done)(NobodyThere());
  there->Push(request, std::move(payload), deadline, std::move(done));
}
void ServerPlace::PushPull(const v1::PushRequest& request, Payload payload, absl::Time deadline,
                           PullDone done) {
  const auto there = server();
  if (there == nullptr) return std::move(done)(NobodyThere());
  there->PushPull(request, std::move(payload), deadline, std::move(done));
}
void ServerPlace::Assign(const v1::AssignRequest& request, Payload payload, absl::Time deadline,
                         AssignDone done) {
  const auto there = server();
  if (there == nullptr) return std::move(done)(NobodyThere());
  there->Assign(request, std::move(payload), deadline, std::move(done));
}
void ServerPlace::Reduce(const v1::ReduceRequest& request, Payload payload, absl::Time deadline,
                         ReduceDone done) {
  const auto there = server();
  if (there == nullptr) return std::move(done)(NobodyThere());
  there->Reduce(request, std::move(payload), deadline, std::move(done));
}

struct HandMadeJob::Serving {
  explicit Serving(ServerPlace& place) : service(place, Clock::Real()) {
    ServeOptions options;
    options.services = {&service};
    auto served = Serve(options);
    EXPECT_THAT(served, IsOk());
    serving = *std::move(served);
  }
  ~Serving() { serving.server->Shutdown(std::chrono::system_clock::now()); }

  ParameterService service;
  weir::Serving serving;
};

HandMadeJob::HandMadeJob(Options options)
    : options_(std::move(options)), executor_(Executor::CreatePool(2)) {
  view_.declaration = options_.declaration;
  view_.regime = options_.regime;
  view_.regime_options = options_.regime_options;
  view_.deterministic = options_.deterministic;
  view_.state = v1::JOB_STATE_INITIALISING;
  view_.shard_bytes = options_.shard_bytes;
  view_.chunk_bytes = options_.chunk_bytes;
  for (size_t worker = 0; worker < options_.workers; ++worker) {
    view_.workers.push_back(incarnation(worker));
  }
  for (size_t server = 0; server < options_.servers; ++server) {
    places_.push_back(std::make_unique<ServerPlace>());
    view_.servers.push_back(ServerNamed(absl::StrCat("ps-", server), 100 + server));
    places_[server]->Put(NewServer(server, 100 + server));
    if (options_.over_grpc) {
      serving_.push_back(std::make_unique<Serving>(*places_[server]));
      view_.servers[server].set_address(serving_[server]->serving.address);
    }
    UnreliableEndpoint::Options network = options_.network;
    network.seed += server;
    networks_.push_back(
        std::make_shared<UnreliableEndpoint>(*places_[server], *executor_, network));
  }
  for (size_t worker = 0; worker < options_.workers; ++worker) {
    engines_.push_back(NewEngine(incarnation(worker)));
    clients_.push_back(std::make_unique<RoutedParameterClient>(engines_.back()));
  }
  Publish();
  for (size_t worker = 0; worker < options_.workers; ++worker) Adopt(worker);
}

HandMadeJob::~HandMadeJob() {
  // What is parked ends with its server, and with that the clients.
  view_.state = v1::JOB_STATE_FINISHED;
  ++view_.version;
  for (const auto& place : places_) (void)place->server()->ApplyView(view_.Make());
  clients_.clear();
  serving_.clear();
}

std::shared_ptr<ParameterServer> HandMadeJob::NewServer(size_t server, uint64_t incarnation) {
  ParameterServer::Options options;
  options.name = absl::StrCat("ps-", server);
  options.incarnation = incarnation;
  options.clock = &Clock::Real();
  options.executor = executor_.get();
  return std::make_shared<ParameterServer>(std::move(options));
}

std::shared_ptr<TransferEngine> HandMadeJob::NewEngine(uint64_t worker) {
  TransferEngine::Options options;
  options.worker = WorkerId{worker};
  options.clock = &Clock::Real();
  options.executor = executor_.get();
  options.seed = worker;
  options.view_poll = absl::Milliseconds(50);
  if (options_.over_grpc) {
    options.connect = ConnectRemotely;
  } else {
    options.connect =
        [this](const v1::ServerInfo& server) -> absl::StatusOr<std::shared_ptr<ParameterEndpoint>> {
      for (size_t i = 0; i < places_.size(); ++i) {
        if (view_.servers[i].name() == server.name()) return {networks_[i]};
      }
      return absl::NotFoundError(server.name());
    };
  }
  return TransferEngine::Create(std::move(options));
}

std::unique_ptr<ParameterClient> HandMadeJob::NewReader() {
  auto engine = NewEngine(0);
  EXPECT_THAT(engine->OnView(view_.MakeShared()), IsOk());
  return std::make_unique<RoutedParameterClient>(std::move(engine));
}

void HandMadeJob::Publish() {
  const auto view = view_.MakeShared();
  for (const auto& place : places_) EXPECT_THAT(place->server()->ApplyView(*view), IsOk());
  for (const auto& engine : engines_) EXPECT_THAT(engine->OnView(view), IsOk());
}

void HandMadeJob::Run() {
  ++view_.version;
  view_.state = v1::JOB_STATE_RUNNING;
  Publish();
}

void HandMadeJob::Remove(size_t worker) {
  ++view_.version;
  ++view_.generation;
  std::erase(view_.workers, incarnation(worker));
  Publish();
}

void HandMadeJob::Restart(size_t server) {
  const uint64_t incarnation = view_.servers[server].incarnation() + 1000;
  auto fresh = NewServer(server, incarnation);
  view_.servers[server].set_incarnation(incarnation);
  // A restarted server has the present view before anybody learns of a new one.
  EXPECT_THAT(fresh->ApplyView(view_.Make()), IsOk());
  places_[server]->Put(std::move(fresh));
}

void HandMadeJob::RollBack() {
  ++view_.version;
  ++view_.attempt;
  view_.state = v1::JOB_STATE_INITIALISING;
  Publish();
}

}  // namespace weir
