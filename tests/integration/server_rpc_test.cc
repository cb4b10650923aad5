// SPDX-License-Identifier: Apache-2.0
// A server's core behind its gRPC skin, on loopback, with views given by hand: what a worker's
// RemoteEndpoint gets is what the core does.
#include <gmock/gmock.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/grpc_status.h"
#include "rpc/channels.h"
#include "rpc/errors.h"
#include "rpc/payload_codec.h"
#include "rpc/remote_endpoint.h"
#include "server/parameter_server.h"
#include "server/parameter_service.h"
#include "server/server_control_service.h"
#include "tests/support/call_and_wait.h"
#include "tests/support/fake_file_system.h"
#include "tests/support/raw_call.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr uint64_t kRun = 0xABCDEF0123456789;
constexpr uint64_t kWorker = uint64_t{1} << 63;
constexpr uint64_t kIncarnation = 77;
constexpr uint64_t kElements = 200'000;  // four shards of 256 KiB, the last one shorter
constexpr uint64_t kShardElements = (256 << 10) / 4;

// One job of one worker with one variable, all of it on this server.
v1::JobView MakeView(v1::JobState state, uint64_t version) {
  v1::JobView view;
  view.set_run_id(kRun);
  view.set_name("job");
  view.set_version(version);
  view.set_term(1);
  view.set_attempt(1);
  view.set_generation(1);
  view.set_state(state);
  view.mutable_spec()->set_name("job");
  view.mutable_spec()->set_workers(1);
  view.mutable_spec()->mutable_regime()->set_kind(v1::REGIME_ASYNC);
  v1::OptimizerGroup* group = view.mutable_declaration()->add_groups();
  group->set_name("all");
  group->mutable_optimizer()->mutable_learning_rate()->set_base(1);
  group->mutable_optimizer()->mutable_sgd();
  v1::Variable* variable = view.mutable_declaration()->add_variables();
  variable->set_name("w");
  variable->set_dtype(v1::DTYPE_F32);
  variable->add_shape(kElements);
  variable->set_group(1);
  v1::Member* member = view.add_members();
  member->set_worker(kWorker);
  view.set_initialiser(kWorker);
  v1::ShardMap* map = view.mutable_shard_map();
  map->set_version(1);
  map->set_shard_bytes(256 << 10);
  map->set_chunk_bytes(128 << 10);
  v1::ServerInfo* server = map->add_servers();
  server->set_name("server-0");
  server->set_incarnation(kIncarnation);
  for (int shard = 0; shard < 4; ++shard) map->add_server_of_shard(0);
  return view;
}

void SetContext(v1::RequestContext* context) {
  context->set_run_id(kRun);
  context->set_attempt(1);
  context->set_generation(1);
  context->set_shard_map_version(1);
  context->set_worker(kWorker);
  context->set_server_incarnation(kIncarnation);
}

template <typename Request>
Request WithAllSegments() {
  Request request;
  SetContext(request.mutable_context());
  for (uint64_t shard = 0; shard < 4; ++shard) {
    v1::Segment* segment = request.add_segments();
    segment->set_shard(shard);
    segment->set_count(std::min(kShardElements, kElements - shard * kShardElements));
  }
  return request;
}

// The floats must outlive the payload.
Payload PayloadOf(const std::vector<float>& values) {
  Payload payload;
  payload.Append(values.data(), values.size() * sizeof(float));
  return payload;
}

std::vector<float> FloatsOf(const Payload& payload) {
  std::vector<float> values(payload.size() / sizeof(float));
  ForEachRun(payload, 0, values.size(), sizeof(float),
             [&](const std::byte* data, size_t first, size_t count) {
               std::memcpy(&values[first], data, count * sizeof(float));
             });
  return values;
}

class ServerRpcTest : public testing::Test {
 protected:
  ServerRpcTest() {
    ParameterServer::Options options;
    options.name = "server-0";
    options.incarnation = kIncarnation;
    options.clock = &Clock::Real();
    options.executor = executor_.get();
    server_ = std::make_unique<ParameterServer>(options);
    data_plane_ = std::make_unique<ParameterService>(*server_, Clock::Real());
    terms_ = *TermRecord::Open(files_, "/data");
    control_ = std::make_unique<ServerControlService>(ServerControlService::Options{
        .server = server_.get(), .terms = terms_.get(), .executor = executor_.get()});
    auto serving = Serve({.services = {data_plane_.get(), control_.get()}});
    EXPECT_THAT(serving.status(), IsOk());
    serving_ = *std::move(serving);
    channel_ = *Dial(serving_.address);
    remote_ = std::make_unique<RemoteEndpoint>(
        channel_, RemoteEndpoint::Options{serving_.address, &Clock::Real()});
  }
  ~ServerRpcTest() override {
    remote_.reset();
    serving_.server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  }

  static absl::Time Soon() { return Clock::Real().Now() + absl::Seconds(20); }
  absl::StatusOr<v1::AssignReply> Assign(const std::vector<float>& values) {
    return CallAndWait<v1::AssignReply>([&](auto done) {
      remote_->Assign(WithAllSegments<v1::AssignRequest>(), PayloadOf(values), Soon(),
                      std::move(done));
    });
  }
  absl::StatusOr<v1::PushReply> Push(const v1::PushRequest& request, Payload payload) {
    return CallAndWait<v1::PushReply>(
        [&](auto done) { remote_->Push(request, std::move(payload), Soon(), std::move(done)); });
  }
  absl::StatusOr<PullResult> Pull() {
    return CallAndWait<PullResult>([&](auto done) {
      remote_->Pull(WithAllSegments<v1::PullRequest>(), Soon(), std::move(done));
    });
  }
  static v1::PushRequest PushOf(uint64_t sequence) {
    auto request = WithAllSegments<v1::PushRequest>();
    request.set_group(1);
    request.set_sequence(sequence);
    request.set_step(sequence - 1);
    request.set_group_step(sequence - 1);
    request.set_weight(1);
    request.set_examples(1);
    return request;
  }
  void StartJob() {
    WEIR_ASSERT_OK(server_->ApplyView(MakeView(v1::JOB_STATE_INITIALISING, 1)));
    WEIR_ASSERT_OK(Assign(std::vector<float>(kElements, 10.0f)));
    WEIR_ASSERT_OK(server_->ApplyView(MakeView(v1::JOB_STATE_RUNNING, 2)));
  }
  FakeFileSystem files_;
  const std::unique_ptr<Executor> executor_ = Executor::CreatePool(2);
  std::unique_ptr<ParameterServer> server_;
  std::unique_ptr<ParameterService> data_plane_;
  std::unique_ptr<TermRecord> terms_;
  std::unique_ptr<ServerControlService> control_;
  Serving serving_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<RemoteEndpoint> remote_;
};

TEST_F(ServerRpcTest, AssignedValuesArePulledAndPushesChangeThem) {
  StartJob();
  std::vector<float> gradient(kElements);
  std::iota(gradient.begin(), gradient.end(), 0.0f);
  WEIR_ASSERT_OK(Push(PushOf(1), PayloadOf(gradient)));
  WEIR_ASSERT_OK_AND_ASSIGN(const PullResult pulled, Pull());
  const std::vector<float> values = FloatsOf(pulled.payload);
  ASSERT_EQ(values.size(), kElements);
  for (uint64_t i = 0; i < kElements; ++i) ASSERT_EQ(values[i], 10.0f - static_cast<float>(i)) << i;
}

TEST_F(ServerRpcTest, PushPullAnswersWithTheUpdatedWeights) {
  StartJob();
  const std::vector<float> gradient(kElements, 4.0f);
  const auto result = CallAndWait<PullResult>([&](auto done) {
    remote_->PushPull(PushOf(1), PayloadOf(gradient), Soon(), std::move(done));
  });
  WEIR_ASSERT_OK(result);
  EXPECT_THAT(FloatsOf(result->payload), Each(6.0f));
}

TEST_F(ServerRpcTest, RepeatedPushIsAppliedOnce) {
  StartJob();
  const std::vector<float> gradient(kElements, 1.0f);
  for (int i = 0; i < 3; ++i) {
    WEIR_ASSERT_OK_AND_ASSIGN(const v1::PushReply reply, Push(PushOf(1), PayloadOf(gradient)));
    EXPECT_EQ(reply.outcome().repeated(), i > 0);
  }
  WEIR_ASSERT_OK_AND_ASSIGN(const PullResult pulled, Pull());
  EXPECT_THAT(FloatsOf(pulled.payload), Each(9.0f));
}

TEST_F(ServerRpcTest, UninitialisedWeightsAreNeverServed) {
  WEIR_ASSERT_OK(server_->ApplyView(MakeView(v1::JOB_STATE_INITIALISING, 1)));
  EXPECT_TRUE(IsNotInitialised(Pull().status())) << Pull().status();
}

TEST_F(ServerRpcTest, UnknownRunIsUnavailableUntilItsViewComes) {
  EXPECT_EQ(Pull().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ServerRpcTest, AnotherIncarnationIsRefused) {
  StartJob();
  auto request = PushOf(1);
  request.mutable_context()->set_server_incarnation(kIncarnation - 1);
  EXPECT_TRUE(IsStaleIncarnation(Push(request, PayloadOf(std::vector<float>())).status()));
}

TEST_F(ServerRpcTest, GradientThatIsNotFiniteIsNamedAndChangesNothing) {
  StartJob();
  std::vector<float> gradient(kElements, 1.0f);
  gradient[150'000] = std::numeric_limits<float>::quiet_NaN();
  const absl::Status status = Push(PushOf(1), PayloadOf(gradient)).status();
  EXPECT_TRUE(IsNotFinite(status)) << status;
  EXPECT_THAT(status, HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("'w'")));
  WEIR_ASSERT_OK_AND_ASSIGN(const PullResult pulled, Pull());
  EXPECT_THAT(FloatsOf(pulled.payload), Each(10.0f));
}

TEST_F(ServerRpcTest, PayloadOfTheWrongSizeIsRefusedAndChangesNothing) {
  StartJob();
  for (const uint64_t size : {uint64_t{0}, kElements - 1, kElements + 1}) {
    const std::vector<float> gradient(size, 1.0f);
    EXPECT_EQ(Push(PushOf(1), PayloadOf(gradient)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  WEIR_ASSERT_OK_AND_ASSIGN(const PullResult pulled, Pull());
  EXPECT_THAT(FloatsOf(pulled.payload), Each(10.0f));
}

TEST_F(ServerRpcTest, RandomAndDamagedRequestsChangeNothingAndTheServerLivesOn) {
  StartJob();
  v1::PushRequest whole = PushOf(1);
  whole.set_payload("0123456789ab");
  const std::string bytes = whole.SerializeAsString();
  std::mt19937_64 random(3);
  for (int i = 0; i < 500; ++i) {
    std::string damaged = bytes.substr(0, random() % bytes.size());
    for (int flips = i % 4; flips > 0 && !damaged.empty(); --flips) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    for (const char* method : {"Push", "PushPull", "Assign", "Pull"}) {
      SendRaw(channel_, method, damaged)
          .IgnoreError();  // a message that ends before its segments is legal
    }
  }
  WEIR_ASSERT_OK_AND_ASSIGN(const PullResult pulled, Pull());
  EXPECT_THAT(FloatsOf(pulled.payload), Each(10.0f));
}

TEST_F(ServerRpcTest, ManyClientsAtOnceLoseNoPush) {
  StartJob();
  constexpr int kPushes = 30;
  std::thread puller([&] {
    for (int i = 0; i < kPushes; ++i) WEIR_EXPECT_OK(Pull());
  });
  const std::vector<float> gradient(kElements, 1.0f);
  for (int i = 1; i <= kPushes; ++i) WEIR_EXPECT_OK(Push(PushOf(i), PayloadOf(gradient)));
  puller.join();
  WEIR_ASSERT_OK_AND_ASSIGN(const PullResult pulled, Pull());
  EXPECT_THAT(FloatsOf(pulled.payload), Each(10.0f - kPushes));
}

TEST_F(ServerRpcTest, ControlRefusesACoordinatorOfALowerTerm) {
  StartJob();
  const auto stub = v1::ServerControl::NewStub(channel_);
  const auto abort = [&](uint64_t term) {
    grpc::ClientContext context;
    v1::AbortStepRequest request;
    v1::AbortStepReply reply;
    request.set_term(term);
    request.set_run_id(kRun);
    request.set_attempt(1);
    return FromGrpcStatus(stub->AbortStep(&context, request, &reply));
  };
  WEIR_EXPECT_OK(abort(5));
  EXPECT_THAT(abort(4), HasStatus(absl::StatusCode::kAborted,
                                  AllOf(HasSubstr("term 5"), HasSubstr("yours is 4"))));
}

TEST_F(ServerRpcTest, DrainEndsWhenNothingIsInFlight) {
  StartJob();
  const auto stub = v1::ServerControl::NewStub(channel_);
  grpc::ClientContext context;
  v1::DrainRequest request;
  v1::DrainReply reply;
  request.set_term(1);
  WEIR_EXPECT_OK(FromGrpcStatus(stub->Drain(&context, request, &reply)));
}

}  // namespace
}  // namespace weir
