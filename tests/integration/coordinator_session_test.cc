// SPDX-License-Identifier: Apache-2.0
#include "rpc/coordinator_session.h"

#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "rpc/channels.h"
#include "tests/integration/scripted_coordinator.h"
#include "tests/support/eventually.h"
#include "tests/support/manual_executor.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CoordinatorSessionTest : public testing::Test {
 protected:
  CoordinatorSessionTest() { StartCoordinator("127.0.0.1:0"); }
  ~CoordinatorSessionTest() override {
    session_.reset();
    StopCoordinator();
  }

  void StartCoordinator(const std::string& listen) {
    coordinator_ = std::make_unique<ScriptedCoordinator>();
    auto serving = Serve({.listen = listen, .services = {coordinator_.get()}});
    ASSERT_THAT(serving.status(), IsOk());
    serving_ = *std::move(serving);
  }
  void StopCoordinator() {
    coordinator_->EndWatches();
    serving_.server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  }

  CoordinatorSession::Options Common() {
    CoordinatorSession::Options options;
    options.address = serving_.address;
    options.clock = &Clock::Real();
    options.incarnation = 99;
    options.on_event = [this](const v1::WatchEvent& event) {
      MutexLock lock(mutex_);
      versions_.push_back(event.view().version());
    };
    options.on_ended = [this](const absl::Status& status) {
      MutexLock lock(mutex_);
      ended_.push_back(status);
    };
    return options;
  }
  void StartServerSession() {
    CoordinatorSession::Options options = Common();
    options.server = [] {
      v1::RegisterServerRequest request;
      request.mutable_server()->set_name("weir-server-0");
      return request;
    };
    Start(std::move(options));
  }
  void StartWorkerSession() {
    CoordinatorSession::Options options = Common();
    options.worker = [] { return v1::RegisterRequest(); };
    options.step = [] { return WorkerStep{.attempt = 3, .step = 1234}; };
    Start(std::move(options));
  }
  void Start(CoordinatorSession::Options options) {
    auto session = CoordinatorSession::Create(std::move(options));
    ASSERT_THAT(session.status(), IsOk());
    session_ = *std::move(session);
    session_->Start();
  }
  std::vector<uint64_t> versions() {
    MutexLock lock(mutex_);
    return versions_;
  }
  std::vector<absl::Status> ended() {
    MutexLock lock(mutex_);
    return ended_;
  }
  static absl::Time Soon() { return Clock::Real().Now() + absl::Seconds(20); }

  std::unique_ptr<ScriptedCoordinator> coordinator_;
  Serving serving_;
  Mutex mutex_;
  std::vector<uint64_t> versions_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::Status> ended_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<CoordinatorSession> session_;
};

TEST_F(CoordinatorSessionTest, ServerRegistersAndSendsHeartbeatsAndTakesViewsInOrder) {
  coordinator_->SendView(7, 1);
  coordinator_->SendView(7, 2);
  StartServerSession();
  WEIR_EXPECT_OK(session_->WaitUntilRegistered(Soon()));
  EXPECT_EQ(coordinator_->last_server(), "weir-server-0");
  EXPECT_TRUE(Eventually([&] { return coordinator_->heartbeats() > 2; }));
  EXPECT_TRUE(Eventually([&] { return versions().size() == 2; }));
  EXPECT_THAT(versions(), testing::ElementsAre(1, 2));
  EXPECT_EQ(coordinator_->watched_run(), 0u);
  EXPECT_EQ(session_->term(), 7u);
  EXPECT_EQ(coordinator_->registrations(), 1);
}

TEST_F(CoordinatorSessionTest, AServersReportHasArrivedWhenItsHeartbeatIsAnswered) {
  coordinator_->FailOneHeartbeat(absl::UnavailableError("not now"));
  CoordinatorSession::Options options = Common();
  options.server = [] { return v1::RegisterServerRequest(); };
  std::atomic<uint64_t> made = 0;
  options.report = [&made] {
    v1::ServerReport report;
    report.set_memory_bytes(++made);
    return report;
  };
  std::atomic<uint64_t> first_arrived = 0;
  options.on_reported = [&first_arrived](const v1::ServerReport& report) {
    uint64_t none = 0;
    first_arrived.compare_exchange_strong(none, report.memory_bytes());
  };
  Start(std::move(options));
  EXPECT_TRUE(Eventually([&] { return first_arrived != 0; }));
  EXPECT_EQ(first_arrived, 2u);
  EXPECT_TRUE(Eventually([&] { return coordinator_->last_memory_bytes() >= 3; }));
  session_.reset();  // before what it reports from
}

TEST_F(CoordinatorSessionTest, WorkerWatchesTheRunThatItIsToldAndReportsItsStep) {
  StartWorkerSession();
  WEIR_EXPECT_OK(session_->WaitUntilRegistered(Soon()));
  EXPECT_TRUE(Eventually([&] { return coordinator_->last_step() == 1234; }));
  EXPECT_EQ(coordinator_->last_attempt(), 3u);
  EXPECT_TRUE(Eventually([&] { return coordinator_->watched_run() == 42; }));
}

TEST_F(CoordinatorSessionTest, RegistersAgainWhereTheCoordinatorHasForgottenIt) {
  StartServerSession();
  WEIR_EXPECT_OK(session_->WaitUntilRegistered(Soon()));
  EXPECT_TRUE(Eventually([&] { return coordinator_->watches() == 1; }));
  coordinator_->FailOneHeartbeat(absl::NotFoundError("who are you?"));
  EXPECT_TRUE(Eventually([&] { return coordinator_->registrations() == 2; }));
  EXPECT_TRUE(Eventually([&] { return coordinator_->watches() == 2; }));
  coordinator_->FailOneHeartbeat(absl::AbortedError("your lease had ended"));
  EXPECT_TRUE(Eventually([&] { return coordinator_->registrations() == 3; }));
  EXPECT_TRUE(Eventually([&] { return coordinator_->watches() == 3; }));
  WEIR_EXPECT_OK(session_->ended());
}

TEST_F(CoordinatorSessionTest, WorkerWhoseLeaseIsOverIsToldAndStops) {
  StartWorkerSession();
  WEIR_EXPECT_OK(session_->WaitUntilRegistered(Soon()));
  coordinator_->FailOneHeartbeat(absl::AbortedError("your lease had ended"));
  EXPECT_TRUE(Eventually([&] { return ended().size() == 1; }));
  EXPECT_THAT(session_->WaitUntilRegistered(Soon()),
              HasStatus(absl::StatusCode::kAborted, HasSubstr("lease")));
  EXPECT_EQ(coordinator_->registrations(), 1);
}

TEST_F(CoordinatorSessionTest, RefusalEndsTheSessionWithTheCoordinatorsWords) {
  coordinator_->RefuseRegistration(absl::FailedPreconditionError("the spec differs in 'seed'"));
  StartWorkerSession();
  EXPECT_THAT(session_->WaitUntilRegistered(Soon()),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("'seed'")));
  EXPECT_TRUE(Eventually([&] { return ended().size() == 1; }));
}

TEST_F(CoordinatorSessionTest, CoordinatorThatComesLaterIsFound) {
  const std::string address = serving_.address;
  StopCoordinator();
  StartServerSession();
  EXPECT_THAT(session_->WaitUntilRegistered(Clock::Real().Now() + absl::Milliseconds(50)),
              HasStatus(absl::StatusCode::kUnavailable, HasSubstr(address)));
  StartCoordinator(address);
  WEIR_EXPECT_OK(session_->WaitUntilRegistered(Soon()));
}

TEST_F(CoordinatorSessionTest, ACoordinatorThatIsAwayForTenSecondsIsToldAndThatItIsBack) {
  FakeClock clock;
  std::vector<std::string> said;
  CoordinatorSession::Options options = Common();
  options.clock = &clock;
  options.worker = [] { return v1::RegisterRequest(); };
  options.warn = [&](const std::string& warning) {
    MutexLock lock(mutex_);
    said.push_back(warning);
  };
  const auto told = [&](size_t times, const std::string& last) {
    clock.SetNow(clock.Now() + absl::Milliseconds(100));
    MutexLock lock(mutex_);
    return said.size() >= times && absl::StrContains(said.back(), last);
  };
  const std::string address = serving_.address;
  Start(std::move(options));
  EXPECT_TRUE(Eventually([&] {
    clock.SetNow(clock.Now() + absl::Milliseconds(100));
    return coordinator_->heartbeats() > 0;
  }));
  EXPECT_FALSE(told(1, ""));
  StopCoordinator();
  EXPECT_TRUE(Eventually([&] { return told(2, "every call has failed for "); }));
  StartCoordinator(address);
  EXPECT_TRUE(Eventually([&] { return told(3, "answers again after "); }));
  session_.reset();  // before what it reports to
  EXPECT_THAT(said[0], AllOf(HasSubstr("coordinator " + address + ": every call has failed for 1"),
                             HasSubstr("tries on")));
}

TEST_F(CoordinatorSessionTest, CoordinatorsRestartEndsNothingAndViewsGoOn) {
  coordinator_->SendView(7, 1);
  StartServerSession();
  EXPECT_TRUE(Eventually([&] { return versions().size() == 1; }));
  const std::string address = serving_.address;
  StopCoordinator();
  StartCoordinator(address);
  coordinator_->SendView(8, 2);
  EXPECT_TRUE(Eventually([&] { return versions().size() == 2; }));
  EXPECT_EQ(session_->term(), 8u);
  WEIR_EXPECT_OK(session_->ended());
  EXPECT_THAT(ended(), testing::IsEmpty());
}

TEST_F(CoordinatorSessionTest, ViewsOfALowerTermAreIgnored) {
  StartServerSession();
  WEIR_EXPECT_OK(session_->WaitUntilRegistered(Soon()));
  coordinator_->SendView(6, 1);  // below the 7 of the registration
  EXPECT_TRUE(Eventually([&] { return coordinator_->watches() >= 3; }));
  EXPECT_THAT(versions(), testing::IsEmpty());
}

TEST_F(CoordinatorSessionTest, CallsAreRepeatedWhileTheCoordinatorIsAway) {
  StartWorkerSession();
  WEIR_EXPECT_OK(session_->WaitUntilRegistered(Soon()));
  const std::string address = serving_.address;
  StopCoordinator();
  v1::HeartbeatRequest request;
  EXPECT_THAT(session_->client().Call(&CoordinatorStub::Heartbeat, request,
                                      Clock::Real().Now() + absl::Milliseconds(100)),
              HasStatus(absl::StatusCode::kUnavailable, HasSubstr(address)));
  std::thread later([&] { StartCoordinator(address); });
  WEIR_EXPECT_OK(session_->client().Call(&CoordinatorStub::Heartbeat, request, Soon()));
  later.join();
}

TEST_F(CoordinatorSessionTest, LeavingEndsHeartbeatsBeforeItSaysSoUnlessItStays) {
  StartWorkerSession();
  WEIR_EXPECT_OK(session_->WaitUntilRegistered(Soon()));
  v1::LeaveRequest stays;
  stays.set_unless_last(true);
  WEIR_EXPECT_OK(session_->Leave(stays, Soon()));
  const int before = coordinator_->heartbeats();
  EXPECT_TRUE(Eventually([&] { return coordinator_->heartbeats() > before + 1; }));
  WEIR_EXPECT_OK(session_->Leave(v1::LeaveRequest(), Soon()));
  EXPECT_TRUE(coordinator_->left());
  session_->Stop();
  EXPECT_EQ(coordinator_->registrations(), 1);
  EXPECT_THAT(ended(), testing::IsEmpty());
}

TEST_F(CoordinatorSessionTest, StopEndsAnOpenWatchAndACallInFlightAtOnce) {
  StartWorkerSession();
  EXPECT_TRUE(Eventually([&] { return coordinator_->watches() == 1; }));
  const std::string address = serving_.address;
  StopCoordinator();
  absl::Status result;
  std::thread caller([&] {
    result = session_->client()
                 .Call(&CoordinatorStub::Heartbeat, v1::HeartbeatRequest(), Soon())
                 .status();
  });
  session_->Stop();
  caller.join();
  EXPECT_EQ(result.code(), absl::StatusCode::kCancelled);
}

TEST_F(CoordinatorSessionTest, SessionThatIsNeitherServersNorWorkersIsRefused) {
  EXPECT_THAT(CoordinatorSession::Create(Common()).status(),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("either")));
}

}  // namespace
}  // namespace weir
