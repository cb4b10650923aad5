// SPDX-License-Identifier: Apache-2.0
// One `weir run` after another: what the next one goes on from, and what it refuses.
#include <gmock/gmock.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/faults/run_fixture.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(RunTest, ARerunThatIsRefusedLeavesTheResultAndOneThatReplacesShowsNothingOfIt) {
  ASSERT_EQ(Run({"--set", "epochs=1"}).code, 0);
  const nlohmann::json result = Summary();
  const Answer refused = Run({"--set", "epochs=1"});
  EXPECT_EQ(refused.code, 3) << refused.output;
  EXPECT_THAT(refused.output, AllOf(HasSubstr("failed: the cluster refused the job"),
                                    Not(HasSubstr("run folder"))));
  EXPECT_EQ(Summary(), result);

  const Answer replaced = Run({"--set", "epochs=1", "--replace"});
  EXPECT_EQ(replaced.code, 0) << replaced.output;
  const size_t begin = replaced.output.find("Started a coordinator");
  const std::string before =
      replaced.output.substr(begin, replaced.output.find("[worker-") - begin);
  EXPECT_THAT(before, Not(HasSubstr("finished")));
}

// 512 examples in batches of 16 are 32 steps an epoch.
TEST_F(RunTest, AJobGoesOnFromItsNewestCheckpointOrFromTheOneThatIsNamed) {
  const auto run = [&](const char* resume, const char* epochs) {
    return Run({"--servers", "2", "--workers", "1", "--set", "regime=sync", "--set",
                absl::StrCat("resume=", resume), "--set", absl::StrCat("epochs=", epochs)});
  };
  const Answer first = run("auto", "1");
  ASSERT_EQ(first.code, 0) << first.output;
  EXPECT_THAT(first.output, HasSubstr("step=0 checkpoint=none"));
  const std::string id = Summary().value("checkpoint", "");
  EXPECT_EQ(Summary().value("steps", 0), 32);

  const Answer second = run("auto", "2");
  ASSERT_EQ(second.code, 0) << second.output;
  EXPECT_THAT(second.output, HasSubstr("step=32 checkpoint=" + id));
  EXPECT_EQ(Summary().value("steps", 0), 64);
  EXPECT_NE(Summary().value("checkpoint", ""), id);
  EXPECT_THAT(second.output, Not(HasSubstr("Nothing was left to train")));
  const Answer again = run("auto", "2");
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("Nothing was left to train: checkpoint "));
  EXPECT_EQ(Summary().value("steps", 0), 64);

  const Answer third = run(id.c_str(), "3");
  ASSERT_EQ(third.code, 0) << third.output;
  EXPECT_THAT(third.output, HasSubstr("step=32 checkpoint=" + id));
  EXPECT_EQ(Summary().value("steps", 0), 96);

  const Answer unknown = run("00000099-1", "4");
  EXPECT_EQ(unknown.code, 3) << unknown.output;
  EXPECT_THAT(unknown.output, HasSubstr("00000099-1"));
}

// Three times: each goes on from where the one before it has stopped.
TEST_F(RunTest, AnInterruptSavesACheckpointThatTheNextRunGoesOnFrom) {
  WriteJob(absl::StrReplaceAll(kJob, {{"epochs: 3", "epochs: 100000"}}));
  std::string checkpoint;
  for (int run = 0; run < 3; ++run) {
    const auto weir =
        run == 0 ? Start({"--servers", "2"}) : Start({"--servers", "2", "--resume", "auto"});
    if (run > 0) {
      ASSERT_TRUE(WaitForLine(*weir, "resumes from " + checkpoint, kLong));
    }
    ASSERT_TRUE(WaitForLine(*weir, " samples/s", kLong));
    weir->Signal(SIGINT);
    const Answer answer = AnswerOf(*weir, absl::Seconds(90));
    EXPECT_EQ(answer.code, 130) << answer.output;
    ASSERT_THAT(answer.output, AllOf(HasSubstr("go on from it with"), HasSubstr("--resume auto")));
    checkpoint = answer.output.substr(answer.output.find("Its newest checkpoint is ") + 25, 10);
  }
  // A plain rerun does not throw it away in silence.
  const Answer plain = Run({"--servers", "2"});
  EXPECT_EQ(plain.code, 3) << plain.output;
  EXPECT_THAT(plain.output, AllOf(HasSubstr("go on from checkpoint " + checkpoint),
                                  HasSubstr("begin anew with replace: true")));
}

// All processes of the run die with it; the next run's coordinator gives the dead members a lease.
TEST_F(RunTest, AKilledRunGoesOnOrBeginsAnewAtTheFirstTry) {
  WriteJob(absl::StrReplaceAll(kJob, {{"epochs: 3", "epochs: 100000"}}) +
           "checkpoint: {every: 20 steps}\n");
  for (const char* flag : {"", "resume=latest", "resume=auto", "", "replace=true"}) {
    const auto weir = *flag == 0 ? Start({}) : Start({"--set", flag});
    const bool anew = std::string(flag) == "replace=true";
    ASSERT_TRUE(WaitForLine(*weir, anew ? "checkpoint=none" : "training attempt=", kLong)) << flag;
    ASSERT_TRUE(WaitForLine(*weir, " samples/s", kLong)) << flag;
    AwaitCheckpoint(*weir, folder_ + "/runs/tiny");
    weir->Signal(SIGKILL);
    ASSERT_TRUE(weir->WaitFor(Clock::Real(), absl::Seconds(30))) << flag;
  }
}

TEST_F(RunTest, AKilledRunGoesBackOnceToTheCheckpointThatIsNamed) {
  WriteJob(absl::StrReplaceAll(kJob, {{"epochs: 3", "epochs: 100000"}}) +
           "checkpoint: {every: 20 steps, keep: 1000}\n");
  KillWithCheckpoints(*Start({}), 3);
  const std::string id = Checkpoints()[1];
  const auto back = Start({"--set", "resume=" + id});
  AwaitOutput(*back, "resumes from " + id + " (step ");
  KillWithCheckpoints(*back, Checkpoints().size() + 2);
  // The same command: its run goes on from what it has saved itself.
  const auto again = Start({"--set", "resume=" + id});
  const std::string output = AwaitOutput(*again, "resumes from ");
  EXPECT_THAT(output, Not(HasSubstr("resumes from " + id)));
  again->Signal(SIGKILL);
  EXPECT_TRUE(again->WaitFor(Clock::Real(), absl::Seconds(30)));
}

}  // namespace
}  // namespace weir
