// SPDX-License-Identifier: Apache-2.0
// RemoteEndpoint and ParameterService against each other, around an endpoint that keeps what it
// gets.
#include "rpc/remote_endpoint.h"

#include <gmock/gmock.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "rpc/channels.h"
#include "rpc/errors.h"
#include "rpc/payload_codec.h"
#include "server/parameter_service.h"
#include "tests/support/call_and_wait.h"
#include "tests/support/eventually.h"
#include "tests/support/payload_bytes.h"
#include "tests/support/raw_call.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Keeps pushes, answers pulls with their bytes, parks a PushPull until told. Thread-safe.
class RecordingEndpoint final : public ParameterEndpoint {
 public:
  void Hello(const v1::HelloRequest& request, absl::Time, HelloDone done) override {
    v1::HelloReply reply;
    reply.set_protocol(request.protocol_max());
    std::move(done)(std::move(reply));
  }
  void Pull(const v1::PullRequest& request, absl::Time deadline, PullDone done) override {
    MutexLock lock(mutex_);
    deadline_ = deadline;
    if (!pull_status_.ok()) {
      std::move(done)(pull_status_);
      return;
    }
    PullResult result;
    *result.header.mutable_segments() = request.segments();
    result.payload = PayloadOf(pushed_);
    std::move(done)(std::move(result));
  }
  void Push(const v1::PushRequest& request, Payload payload, absl::Time, PushDone done) override {
    MutexLock lock(mutex_);
    pushed_ = BytesOf(payload);
    v1::PushReply reply;
    reply.mutable_outcome()->set_staleness(request.sequence());
    std::move(done)(std::move(reply));
  }
  void PushPull(const v1::PushRequest&, Payload, absl::Time, PullDone done) override {
    MutexLock lock(mutex_);
    parked_.push_back(std::move(done));
  }
  void Assign(const v1::AssignRequest&, Payload payload, absl::Time, AssignDone done) override {
    MutexLock lock(mutex_);
    pushed_ = BytesOf(payload);
    std::move(done)(v1::AssignReply());
  }

  void Reduce(const v1::ReduceRequest& request, Payload payload, absl::Time,
              ReduceDone done) override {
    ReduceResult result;
    result.header.set_generation(request.step_generation());
    result.payload = std::move(payload);
    std::move(done)(std::move(result));
  }

  void FailPulls(const absl::Status& status) {
    MutexLock lock(mutex_);
    pull_status_ = status;
  }
  size_t parked() {
    MutexLock lock(mutex_);
    return parked_.size();
  }
  void AnswerParked(const std::string& bytes) {
    std::vector<PullDone> parked;
    {
      MutexLock lock(mutex_);
      parked.swap(parked_);
    }
    for (PullDone& done : parked) std::move(done)(PullResult{v1::PullReply(), PayloadOf(bytes)});
  }
  absl::Time deadline() {
    MutexLock lock(mutex_);
    return deadline_;
  }
  std::string pushed() {
    MutexLock lock(mutex_);
    return pushed_;
  }

 private:
  Mutex mutex_;
  std::string pushed_ ABSL_GUARDED_BY(mutex_);
  absl::Status pull_status_ ABSL_GUARDED_BY(mutex_);
  absl::Time deadline_ ABSL_GUARDED_BY(mutex_);
  std::vector<PullDone> parked_ ABSL_GUARDED_BY(mutex_);
};

class RemoteEndpointTest : public testing::Test {
 protected:
  RemoteEndpointTest() {
    auto serving = Serve({.services = {&service_}});
    EXPECT_THAT(serving.status(), IsOk());
    serving_ = *std::move(serving);
    channel_ = *Dial(serving_.address);
    remote_ = MakeRemote();
  }
  ~RemoteEndpointTest() override { StopServer(); }

  std::unique_ptr<RemoteEndpoint> MakeRemote() {
    return std::make_unique<RemoteEndpoint>(
        channel_, RemoteEndpoint::Options{serving_.address, &Clock::Real()});
  }
  void StopServer() {
    serving_.server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  }
  absl::StatusOr<v1::PushReply> Push(const v1::PushRequest& request, Payload payload) {
    return CallAndWait<v1::PushReply>(
        [&](auto done) { remote_->Push(request, std::move(payload), Soon(), std::move(done)); });
  }
  absl::StatusOr<PullResult> Pull(absl::Time deadline) {
    return CallAndWait<PullResult>(
        [&](auto done) { remote_->Pull(v1::PullRequest(), deadline, std::move(done)); });
  }
  // A call that the server keeps. `result` is there when `answered` says so.
  void StartParked(Notification& answered, absl::Status& result) {
    remote_->PushPull(v1::PushRequest(), Payload(), Soon(), [&](absl::StatusOr<PullResult> reply) {
      result = reply.status();
      answered.Notify();
    });
    ASSERT_TRUE(Eventually([&] { return endpoint_.parked() == 1; }));
  }
  static absl::Time Soon() { return Clock::Real().Now() + absl::Seconds(20); }

  RecordingEndpoint endpoint_;
  ParameterService service_{endpoint_, Clock::Real()};
  Serving serving_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<RemoteEndpoint> remote_;
};

TEST_F(RemoteEndpointTest, PushedBytesComeBackInAPull) {
  std::string bytes(1 << 20, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + (i >> 8));
  v1::PushRequest push;
  push.set_sequence(uint64_t{1} << 40);
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::PushReply reply, Push(push, PayloadOf(bytes)));
  EXPECT_EQ(reply.outcome().staleness(), uint64_t{1} << 40);
  EXPECT_EQ(endpoint_.pushed(), bytes);
  WEIR_ASSERT_OK_AND_ASSIGN(const PullResult pulled, Pull(Soon()));
  EXPECT_EQ(BytesOf(pulled.payload), bytes);
}

TEST_F(RemoteEndpointTest, EmptyPushesAndPullsAreOrdinary) {
  WEIR_EXPECT_OK(Push(v1::PushRequest(), Payload()));
  WEIR_ASSERT_OK_AND_ASSIGN(const PullResult pulled, Pull(Soon()));
  EXPECT_EQ(pulled.payload.size(), 0u);
}

TEST_F(RemoteEndpointTest, HelloAndAssignReachTheEndpoint) {
  v1::HelloRequest hello;
  hello.set_protocol_max(3);
  WEIR_ASSERT_OK_AND_ASSIGN(const auto answer, CallAndWait<v1::HelloReply>([&](auto done) {
                              remote_->Hello(hello, Soon(), std::move(done));
                            }));
  EXPECT_EQ(answer.protocol(), 3u);
  WEIR_EXPECT_OK(CallAndWait<v1::AssignReply>([&](auto done) {
    remote_->Assign(v1::AssignRequest(), PayloadOf("first values"), Soon(), std::move(done));
  }));
  EXPECT_EQ(endpoint_.pushed(), "first values");
}

TEST_F(RemoteEndpointTest, MessageOfTheLargestSizePassesAndALargerOneIsRefusedBeforeItIsSent) {
  WEIR_EXPECT_OK(Push(v1::PushRequest(), PayloadOf(std::string(kMaxMessageBytes - 5, 'x'))));
  WEIR_EXPECT_OK(Pull(Soon()));
  EXPECT_THAT(Push(v1::PushRequest(), PayloadOf(std::string(kMaxMessageBytes - 4, 'x'))),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("4194304")));
}

TEST_F(RemoteEndpointTest, NamedErrorsKeepTheirNameAcrossTheWire) {
  endpoint_.FailPulls(StaleView("generation", 3, 4));
  EXPECT_TRUE(IsStaleView(Pull(Soon()).status()));
  endpoint_.FailPulls(StaleAttempt(1, 2));
  EXPECT_TRUE(IsStaleAttempt(Pull(Soon()).status()));
  endpoint_.FailPulls(StaleIncarnation("weir-server-0"));
  EXPECT_TRUE(IsStaleIncarnation(Pull(Soon()).status()));
  endpoint_.FailPulls(NotAMember(WorkerId{7}, "its lease is over"));
  EXPECT_TRUE(IsNotAMember(Pull(Soon()).status()));
  endpoint_.FailPulls(NotInitialised("w", "worker 0"));
  EXPECT_TRUE(IsNotInitialised(Pull(Soon()).status()));
  EXPECT_TRUE(IsRetryable(Pull(Soon()).status()));
  endpoint_.FailPulls(NotFinite("w", 1, WorkerId{2}, 3));
  EXPECT_TRUE(IsNotFinite(Pull(Soon()).status()));
  endpoint_.FailPulls(OutOfMemory("job", 10, 20, 25));
  EXPECT_THAT(Pull(Soon()), HasStatus(absl::StatusCode::kResourceExhausted, HasSubstr("20 of 25")));
}

TEST_F(RemoteEndpointTest, EndpointSeesTheCallersDeadline) {
  WEIR_EXPECT_OK(Pull(Clock::Real().Now() + absl::Seconds(100)));
  const absl::Duration left = endpoint_.deadline() - Clock::Real().Now();
  EXPECT_GT(left, absl::Seconds(80));
  EXPECT_LE(left, absl::Seconds(100));
}

TEST_F(RemoteEndpointTest, ParkedReplyComesWhenTheEndpointAnswers) {
  const auto answer = CallAndWait<PullResult>([&](auto done) {
    remote_->PushPull(v1::PushRequest(), Payload(), Soon(), std::move(done));
    ASSERT_TRUE(Eventually([&] { return endpoint_.parked() == 1; }));
    endpoint_.AnswerParked("fresh weights");
  });
  WEIR_ASSERT_OK(answer);
  EXPECT_EQ(BytesOf(answer->payload), "fresh weights");
}

TEST_F(RemoteEndpointTest, ServerThatNeverAnswersEndsInDeadlineExceededNamingIt) {
  EXPECT_THAT(CallAndWait<PullResult>([&](auto done) {
                remote_->PushPull(v1::PushRequest(), Payload(), Clock::Real().Now(),
                                  std::move(done));
              }),
              HasStatus(absl::StatusCode::kDeadlineExceeded, HasSubstr(serving_.address)));
  // Whose client has gone: the late answer is dropped.
  ASSERT_TRUE(Eventually([&] { return endpoint_.parked() == 1; }));
  endpoint_.AnswerParked("too late");
  WEIR_EXPECT_OK(Pull(Soon()));
}

TEST_F(RemoteEndpointTest, DestructionCancelsWhatIsInFlight) {
  Notification answered;
  absl::Status result;
  StartParked(answered, result);
  remote_.reset();
  ASSERT_TRUE(answered.HasBeenNotified());
  EXPECT_EQ(result.code(), absl::StatusCode::kCancelled);
  endpoint_.AnswerParked("to nobody");
}

TEST_F(RemoteEndpointTest, ParkedCallsDoNotHoldUpAServerThatStops) {
  Notification answered;
  absl::Status result;
  StartParked(answered, result);
  StopServer();
  ASSERT_TRUE(answered.WaitFor(absl::Seconds(20)));
  EXPECT_THAT(result, HasStatus(absl::StatusCode::kUnavailable, HasSubstr(serving_.address)));
  endpoint_.AnswerParked("after the server's end");
}

TEST_F(RemoteEndpointTest, NobodyThereIsUnavailableNamingTheAddress) {
  StopServer();
  EXPECT_THAT(Pull(Soon()), HasStatus(absl::StatusCode::kUnavailable, HasSubstr(serving_.address)));
}

TEST_F(RemoteEndpointTest, OwnersOfSentBytesAreReleased) {
  std::atomic<int> released = 0;
  const std::string bytes(1000, 'x');
  Payload payload;
  payload.Append(bytes.data(), bytes.size(), &released,
                 [](void* count) { ++*static_cast<std::atomic<int>*>(count); });
  WEIR_EXPECT_OK(Push(v1::PushRequest(), std::move(payload)));
  EXPECT_TRUE(Eventually([&] { return released == 1; }));
}

TEST_F(RemoteEndpointTest, RandomAndTruncatedRequestsGetInvalidArgumentAndTheServerLivesOn) {
  v1::PushRequest push;
  push.mutable_context()->set_run_id(1);
  push.set_payload("0123456789");
  const std::string whole = push.SerializeAsString();
  std::mt19937_64 random(7);
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string bytes = whole.substr(0, random() % whole.size());
    if (i % 2 == 0) {
      for (char& byte : bytes) byte = static_cast<char>(random());
    }
    v1::PushRequest parsed;
    if (parsed.ParseFromString(bytes)) continue;
    for (const char* method : {"Push", "Assign", "Pull", "Reduce"}) {
      const absl::Status status = SendRaw(channel_, method, bytes);
      if (std::string(method) != "Push" && status.ok()) continue;  // legal for that message
      EXPECT_THAT(status, HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("malformed")));
      ++refused;
    }
  }
  EXPECT_GT(refused, 300);
  WEIR_EXPECT_OK(Push(push, Payload()));
}

TEST_F(RemoteEndpointTest, GarbageIsNoHello) {
  EXPECT_FALSE(SendRaw(channel_, "Hello", "\xFF\xFF\xFF").ok());
}

TEST_F(RemoteEndpointTest, ReduceCarriesHeaderAndPayloadBothWays) {
  v1::ReduceRequest request;
  request.set_step_generation(9);
  const std::string bytes(1 << 20, 'x');
  const auto result = CallAndWait<ReduceResult>(
      [&](auto done) { remote_->Reduce(request, PayloadOf(bytes), Soon(), std::move(done)); });
  WEIR_ASSERT_OK(result);
  EXPECT_EQ(result->header.generation(), 9u);
  EXPECT_EQ(BytesOf(result->payload), bytes);
}

TEST_F(RemoteEndpointTest, SecondServerOnTheSamePortIsRefusedInOneLine) {
  const auto second = Serve({.listen = serving_.address});
  EXPECT_THAT(second.status(), HasStatus(absl::StatusCode::kUnavailable,
                                         AllOf(HasSubstr(serving_.address), HasSubstr("in use"))));
}

}  // namespace
}  // namespace weir
