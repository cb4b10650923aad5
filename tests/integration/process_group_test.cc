// SPDX-License-Identifier: Apache-2.0
#include "cli/process_group.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <fstream>
#include <sstream>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kLong = absl::Seconds(20);

// The real one, which a test may put forward.
class ForwardClock final : public Clock {
 public:
  absl::Time Now() const override { return Clock::Real().Now() + ahead_; }
  absl::Time WallNow() const override { return Clock::Real().WallNow() + ahead_; }
  void Forward(absl::Duration duration) { ahead_ += duration; }

 private:
  absl::Duration ahead_;
};

class ProcessGroupTest : public ::testing::Test {
 protected:
  ChildOptions Shell(const std::string& script) {
    return {.program = "/bin/sh", .arguments = {"-c", script}};
  }

  ForwardClock clock_;
  absl::Duration pass_with_an_exit_;
  std::vector<std::string> seen_;   // "name: line"
  std::vector<std::string> exits_;  // "name: state"
  const TempFolder temp_;           // of this process: the same test may run beside it
  const std::string folder_ = temp_.path();
  ProcessGroup group_{{.log_folder = folder_,
                       .clock = &clock_,
                       .on_line = [this](const auto& name,
                                         const auto& line) { seen_.push_back(name + ": " + line); },
                       .on_exit =
                           [this](const auto& name, const auto& state) {
                             exits_.push_back(name + ": " + state.ToString());
                             clock_.Forward(pass_with_an_exit_);
                           }}};
};

TEST_F(ProcessGroupTest, LinesAreReportedWithTheirChildsNameAndKeptInItsLog) {
  WEIR_ASSERT_OK(group_.Start("a", Shell("echo hello; exit 4")));
  ASSERT_TRUE(group_.PollUntil([&] { return !exits_.empty(); }, kLong));
  EXPECT_THAT(seen_, ElementsAre("a: hello"));
  EXPECT_THAT(exits_, ElementsAre("a: exit status 4"));
  EXPECT_THAT(group_.LastLines("a"), ElementsAre("hello"));
  std::stringstream log;
  log << std::ifstream(folder_ + "/a.log").rdbuf();
  EXPECT_THAT(log.str(), HasSubstr("hello\n"));
}

TEST_F(ProcessGroupTest, AnEndedChildMayBeStartedAgainUnderItsName) {
  WEIR_ASSERT_OK(group_.Start("a", Shell("exit 0")));
  EXPECT_THAT(group_.Start("a", Shell("exit 0")),
              HasStatus(absl::StatusCode::kAlreadyExists, HasSubstr("a")));
  ASSERT_TRUE(group_.PollUntil([&] { return exits_.size() == 1; }, kLong));
  WEIR_ASSERT_OK(group_.Start("a", Shell("exit 0")));
  EXPECT_TRUE(group_.PollUntil([&] { return exits_.size() == 2; }, kLong));
}

TEST_F(ProcessGroupTest, StopTerminatesAndKillsOnlyWhatDoesNotHear) {
  WEIR_ASSERT_OK(group_.Start("hears", Shell("echo up; read never </dev/zero")));
  WEIR_ASSERT_OK(group_.Start("deaf", Shell("trap '' TERM; echo up; read never </dev/zero")));
  ASSERT_TRUE(group_.PollUntil([&] { return seen_.size() == 2; }, kLong));
  pass_with_an_exit_ = kLong;
  EXPECT_THAT(group_.Stop({"hears", "deaf"}, kLong), ElementsAre("deaf"));
  EXPECT_THAT(exits_, ElementsAre("hears: signal 15 (Terminated)", "deaf: signal 9 (Killed)"));
  EXPECT_FALSE(group_.Runs("hears"));
  EXPECT_FALSE(group_.Runs("deaf"));
  EXPECT_THAT(group_.Stop({"hears", "deaf"}, kLong), IsEmpty());
}

}  // namespace
}  // namespace weir
