// SPDX-License-Identifier: Apache-2.0
// The coordinator through the wire.
#include <gmock/gmock.h>

#include <memory>
#include <thread>

#include "checkpoint/manifest_store.h"
#include "common/grpc_status.h"
#include "common/random_id.h"
#include "coordinator/coordinator.h"
#include "coordinator/coordinator_service.h"
#include "coordinator/server_control_client.h"
#include "rpc/channels.h"
#include "rpc/deadlines.h"
#include "tests/support/fake_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/coordinator/fakes.h"
#include "weir/v1/coordinator.grpc.pb.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(30);

class CoordinatorRpc : public ::testing::Test {
 protected:
  void SetUp() override {
    Coordinator::Options options;
    options.clock = &Clock::Real();
    options.executor = executor_.get();
    options.store = &store_;
    options.transport = &servers_;
    options.manifests = &manifests_;
    options.lease = absl::Minutes(5);
    options.random = RandomId;
    WEIR_ASSERT_OK_AND_ASSIGN(coordinator_, Coordinator::Create(std::move(options)));
    service_ = std::make_unique<CoordinatorService>(coordinator_, Clock::Real());
    WEIR_ASSERT_OK_AND_ASSIGN(serving_, Serve({.services = {service_.get()}}));
    WEIR_ASSERT_OK_AND_ASSIGN(const auto channel, Dial(serving_.address));
    stub_ = v1::CoordinatorService::NewStub(channel);
  }
  void TearDown() override { Stop(); }

  void Stop() {
    if (serving_.server == nullptr) return;
    coordinator_->Shutdown();
    service_->EndWatches();
    serving_.server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
    servers_.Stop();
    executor_.reset();
    serving_.server.reset();
  }

  template <typename Request, typename Reply>
  absl::Status Call(grpc::Status (v1::CoordinatorService::Stub::*method)(grpc::ClientContext*,
                                                                         const Request&, Reply*),
                    const Request& request, Reply& reply, absl::Duration timeout = kPatience) {
    grpc::ClientContext context;
    context.set_deadline(ToGrpcDeadline(Clock::Real().Now() + timeout, Clock::Real()));
    return FromGrpcStatus(((*stub_).*method)(&context, request, &reply));
  }

  // A job of two workers, 1 and 2, with one server; fills in run_id_.
  void BeginJob() {
    v1::RegisterServerRequest server;
    server.mutable_server()->set_name("server-0");
    server.mutable_server()->set_address("127.0.0.1:1");
    server.mutable_server()->set_incarnation(900);
    v1::RegisterServerReply registered;
    WEIR_ASSERT_OK(Call(&v1::CoordinatorService::Stub::RegisterServer, server, registered));
    EXPECT_EQ(registered.term(), 1);
    for (const uint64_t worker : {1, 2}) {
      v1::RegisterRequest request;
      request.set_worker(worker);
      request.set_wanted_rank(-1);
      request.set_host("here");
      request.set_protocol_max(1);
      request.mutable_spec()->set_name("job");
      request.mutable_spec()->set_workers(2);
      request.mutable_spec()->mutable_regime()->set_kind(v1::REGIME_SYNC);
      v1::RegisterReply reply;
      WEIR_ASSERT_OK(Call(&v1::CoordinatorService::Stub::Register, request, reply));
      EXPECT_EQ(reply.rank(), worker - 1);
      run_id_ = reply.run_id();
    }
  }

  // It enters the barrier at the start, where it waits for worker 2.
  v1::BarrierRequest StartOfWorker1() const {
    v1::BarrierRequest request;
    request.set_run_id(run_id_);
    request.set_worker(1);
    request.set_name("start");
    request.set_attempt(1);
    return request;
  }

  MemoryStateStore store_;
  FakeFileSystem files_;
  ManifestStore manifests_{files_, "/checkpoints"};
  std::unique_ptr<Executor> executor_ = Executor::CreatePool(2);
  ServerControlClient servers_{Clock::Real()};
  std::shared_ptr<Coordinator> coordinator_;
  std::unique_ptr<CoordinatorService> service_;
  Serving serving_;
  std::unique_ptr<v1::CoordinatorService::Stub> stub_;
  uint64_t run_id_ = 0;
};

TEST_F(CoordinatorRpc, JobRunsFromRegistrationToInitialisedUnderTheEyesOfAWatcher) {
  BeginJob();
  grpc::ClientContext context;
  v1::WatchRequest watch;
  watch.set_run_id(run_id_);
  watch.set_incarnation(2);
  const auto stream = stub_->Watch(&context, watch);
  v1::WatchEvent event;
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.view().members_size(), 2);

  v1::DeclareRequest declare;
  declare.set_run_id(run_id_);
  declare.set_worker(1);
  v1::Variable& variable = *declare.mutable_declaration()->add_variables();
  variable.set_name("count");
  variable.set_dtype(v1::DTYPE_I64);
  v1::DeclareReply declared;
  WEIR_ASSERT_OK(Call(&v1::CoordinatorService::Stub::Declare, declare, declared));
  while (event.view().state() != v1::JOB_STATE_INITIALISING) ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.view().initialiser(), 1);

  v1::ReportInitialisedRequest initialised;
  initialised.set_run_id(run_id_);
  initialised.set_worker(1);
  initialised.set_attempt(event.view().attempt());
  v1::ReportInitialisedReply done;
  WEIR_ASSERT_OK(Call(&v1::CoordinatorService::Stub::ReportInitialised, initialised, done));
  while (event.view().state() != v1::JOB_STATE_RUNNING) ASSERT_TRUE(stream->Read(&event));
  context.TryCancel();
  while (stream->Read(&event)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(CoordinatorRpc, BarrierAtItsDeadlineNamesWhoIsMissingThroughTheWire) {
  BeginJob();
  v1::BarrierReply reply;
  EXPECT_THAT(Call(&v1::CoordinatorService::Stub::Barrier, StartOfWorker1(), reply,
                   absl::Milliseconds(200)),
              HasStatus(absl::StatusCode::kDeadlineExceeded, HasSubstr("rank 1 (here)")));
}

TEST_F(CoordinatorRpc, ShutdownEndsParkedCallsAndStreamsWithUnavailable) {
  BeginJob();
  grpc::ClientContext context;
  v1::WatchRequest watch;
  const auto stream = stub_->Watch(&context, watch);
  v1::WatchEvent event;
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_TRUE(event.snapshot());
  EXPECT_EQ(event.live_runs_size(), 1);
  absl::Status parked;
  std::thread waiter([&] {
    v1::BarrierReply reply;
    parked = Call(&v1::CoordinatorService::Stub::Barrier, StartOfWorker1(), reply);
  });
  Stop();
  waiter.join();
  while (stream->Read(&event)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  // gRPC itself cancels what comes in after the end.
  EXPECT_TRUE(absl::IsUnavailable(parked) || absl::IsCancelled(parked)) << parked;
}

TEST_F(CoordinatorRpc, UnknownRunsAreNotFound) {
  grpc::ClientContext context;
  v1::WatchRequest watch;
  watch.set_run_id(12345);
  const auto stream = stub_->Watch(&context, watch);
  v1::WatchEvent event;
  EXPECT_FALSE(stream->Read(&event));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
  v1::HeartbeatRequest heartbeat;
  heartbeat.set_incarnation(1);
  heartbeat.set_run_id(12345);
  v1::HeartbeatReply reply;
  EXPECT_THAT(Call(&v1::CoordinatorService::Stub::Heartbeat, heartbeat, reply),
              HasStatus(absl::StatusCode::kNotFound, HasSubstr("register again")));
}

TEST_F(CoordinatorRpc, UnknownJobsAreNotFoundAndNamed) {
  BeginJob();
  const auto unknown = HasStatus(absl::StatusCode::kNotFound, HasSubstr("no job 'nosuch'"));
  v1::ShowJobRequest show;
  show.set_job("nosuch");
  v1::ShowJobReply shown;
  EXPECT_THAT(Call(&v1::CoordinatorService::Stub::ShowJob, show, shown), unknown);
  v1::StopJobRequest stop;
  stop.set_job("nosuch");
  v1::StopJobReply stopped;
  EXPECT_THAT(Call(&v1::CoordinatorService::Stub::StopJob, stop, stopped), unknown);
  show.set_job("job");
  WEIR_ASSERT_OK(Call(&v1::CoordinatorService::Stub::ShowJob, show, shown));
  EXPECT_FALSE(shown.job().view().stop());
}

}  // namespace
}  // namespace weir
