// SPDX-License-Identifier: Apache-2.0
// `weir local`, as a person uses it.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/local_state.h"
#include "tests/support/eventually.h"
#include "tests/support/program.h"
#include "tests/support/sanitizer_reports.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kSoon = absl::Seconds(60);

class LocalClusterTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(state_); }
  void TearDown() override {
    Weir({"local", "down", "--force"});
    EXPECT_THAT(SanitizerReports(state_), IsEmpty());
  }

  // Runs the program to its end.
  Answer Weir(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--state", state_});
    return AnswerOf(*StartProgram("weir", arguments), 2 * kSoon);
  }

  // What the program prints, for other programs. Fails the test where that is no JSON.
  nlohmann::json Json(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    const Answer answer = Weir(arguments);
    EXPECT_EQ(answer.code, 0) << answer.output;
    const auto json = nlohmann::json::parse(answer.output, nullptr, /*allow_exceptions=*/false);
    EXPECT_TRUE(json.is_object()) << answer.output;
    return json.is_object() ? json : nlohmann::json::object();
  }

  LocalState Status() {
    const Answer answer = Weir({"local", "status", "--json"});
    auto state = LocalStateFromJson(answer.output);
    EXPECT_THAT(state, IsOk()) << answer.output;
    return state.ok() ? *state : LocalState();
  }

  const TempFolder temp_;  // of this process: the same test may run beside it
  const std::string state_ = temp_.path();
};

TEST_F(LocalClusterTest, ComesUpIsShownAndGoesDown) {
  const Answer up = Weir({"local", "up", "--servers", "2"});
  ASSERT_EQ(up.code, 0) << up.output;
  EXPECT_THAT(up.output,
              AllOf(HasSubstr("coordinator"), HasSubstr("server-0"), HasSubstr("server-1")));
  EXPECT_EQ(Status().processes.size(), 3);
  // A second one leaves it as it is.
  const pid_t before = Status().processes[0].pid;
  EXPECT_EQ(Weir({"local", "up"}).code, 0);
  EXPECT_EQ(Status().processes[0].pid, before);

  const Answer status = Weir({"status"});
  EXPECT_EQ(status.code, 0) << status.output;
  EXPECT_THAT(status.output, AllOf(HasSubstr("server-1"), HasSubstr("live"), HasSubstr("No jobs")));
  EXPECT_THAT(Weir({"jobs"}).output, HasSubstr("No jobs"));
  EXPECT_THAT(Weir({"checkpoint", "list"}).output, HasSubstr("No checkpoints"));

  EXPECT_EQ(Weir({"local", "down"}).code, 0);
  EXPECT_EQ(kill(before, 0), -1);
  const Answer down = Weir({"local", "status"});
  EXPECT_EQ(down.code, 1);
  EXPECT_THAT(down.output, HasSubstr("weir local up"));
}

TEST_F(LocalClusterTest, ProgramsReadItsStatusJobsAndCheckpointsAsJson) {
  using nlohmann::json;
  ASSERT_EQ(Weir({"local", "up", "--servers", "2"}).code, 0);
  const LocalState local = Status();
  EXPECT_EQ(Json({"status"}).value("jobs", json()), json::array());
  EXPECT_EQ(Json({"jobs"}).value("jobs", json()), json::array());
  EXPECT_EQ(Json({"checkpoint", "list"}).value("manifests", json()), json::array());

  const auto worker = StartProgram("counting-worker", {"--coordinator", local.coordinator, "--job",
                                                       "busy", "--steps", "1000000"});
  const auto state = [&] {
    return Json({"jobs"}).value("/jobs/0/view/state"_json_pointer, std::string());
  };
  ASSERT_TRUE(Eventually([&] { return state() == "JOB_STATE_RUNNING"; }, kSoon));
  EXPECT_EQ(Json({"jobs"}).at("jobs").at(0).at("view").at("name"), "busy");
  EXPECT_EQ(Json({"jobs", "busy"}).at("workers").at(0).at("rank"), 0);
  const json status = Json({"status"});
  EXPECT_EQ(status.at("jobs").at(0).at("view").at("name"), "busy");
  ASSERT_EQ(status.at("servers").size(), 2);
  for (int i = 0; i < 2; ++i) {
    const json& server = status.at("servers").at(i);
    EXPECT_EQ(server.at("live"), true);
    EXPECT_EQ(server.at("server").at("name"), local.processes[1 + i].name);
    EXPECT_EQ(server.at("server").at("address"), local.processes[1 + i].address);
  }
}

TEST_F(LocalClusterTest, AnUnknownJobIsNamedOnOneLineWithExitStatusOne) {
  ASSERT_EQ(Weir({"local", "up", "--servers", "1"}).code, 0);
  for (const std::vector<std::string>& command : {std::vector<std::string>{"jobs", "nosuch"},
                                                  {"jobs", "nosuch", "--json"},
                                                  {"stop", "nosuch"}}) {
    const Answer answer = Weir(command);
    EXPECT_EQ(answer.code, 1) << command[0];
    EXPECT_EQ(answer.output, "weir: no job 'nosuch'; `weir jobs` lists them");
  }
}

TEST_F(LocalClusterTest, AKilledServerIsStartedAgainAtItsAddress) {
  ASSERT_EQ(Weir({"local", "up", "--servers", "1"}).code, 0);
  const LocalState before = Status();
  kill(before.processes[1].pid, SIGKILL);
  LocalState after;
  const auto started_again = [&] {
    after = Status();
    return after.processes[1].restarts == 1 && after.processes[1].pid > 0;
  };
  ASSERT_TRUE(Eventually(started_again, kSoon));
  EXPECT_NE(after.processes[1].pid, before.processes[1].pid);
  EXPECT_EQ(after.processes[1].address, before.processes[1].address);
}

TEST_F(LocalClusterTest, AKilledSupervisorLeavesNothingBehindAndAnotherCanComeUp) {
  ASSERT_EQ(Weir({"local", "up", "--servers", "1"}).code, 0);
  const LocalState before = Status();
  const auto supervisor = LocalLock::Holder(state_);
  WEIR_ASSERT_OK(supervisor);
  kill(*supervisor, SIGKILL);
  ASSERT_TRUE(Eventually([&] { return !LocalLock::Holder(state_).ok(); }, kSoon));
  EXPECT_EQ(Weir({"local", "up", "--servers", "1"}).code, 0);
  EXPECT_NE(Status().processes[0].pid, before.processes[0].pid);
}

TEST_F(LocalClusterTest, ComesUpAgainAtTheCoordinatorsAddressUnlessThatIsTaken) {
  ASSERT_EQ(Weir({"local", "up", "--servers", "1"}).code, 0);
  const std::string address = Status().coordinator;
  ASSERT_EQ(Weir({"local", "down"}).code, 0);
  ASSERT_EQ(Weir({"local", "up", "--servers", "1"}).code, 0);
  EXPECT_EQ(Status().coordinator, address);
  ASSERT_EQ(Weir({"local", "down"}).code, 0);

  const auto other =
      StartProgram("weir-coordinator", {"--listen", address, "--data-dir", state_ + "/other"});
  ASSERT_TRUE(WaitForLine(*other, " ready address=", kSoon));
  const Answer up = Weir({"local", "up", "--servers", "1"});
  ASSERT_EQ(up.code, 0) << up.output;
  const std::string moved = Status().coordinator;
  EXPECT_NE(moved, address);
  EXPECT_THAT(up.output, HasSubstr("Something else listens at " + address +
                                   ", where the coordinator was; it is at " + moved + " now"));
}

TEST_F(LocalClusterTest, UpWithAnotherNumberOfServersThanRunSaysSo) {
  ASSERT_EQ(Weir({"local", "up", "--servers", "1"}).code, 0);
  const Answer more = Weir({"local", "up", "--servers", "2"});
  EXPECT_EQ(more.code, 1);
  EXPECT_THAT(more.output, HasSubstr("runs already, with 1 server, not 2; `weir local down`"));
  EXPECT_EQ(Weir({"local", "up", "--servers", "1"}).code, 0);
  const Answer same = Weir({"local", "up"});
  EXPECT_EQ(same.code, 0);
  EXPECT_THAT(same.output, HasSubstr("is up already"));
}

TEST_F(LocalClusterTest, DownIsRefusedWhileAJobHasWorkersUnlessForced) {
  ASSERT_EQ(Weir({"local", "up", "--servers", "1"}).code, 0);
  const auto worker = StartProgram("counting-worker", {"--coordinator", Status().coordinator,
                                                       "--job", "busy", "--steps", "1000000"});
  ASSERT_TRUE(Eventually([&] {
    const std::string jobs = Weir({"jobs"}).output;
    return jobs.find("busy") != std::string::npos && jobs.find("running") != std::string::npos;
  }));
  const Answer refused = Weir({"local", "down"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.output,
              AllOf(HasSubstr("is at work on busy"), HasSubstr("weir stop"), HasSubstr("--force")));
  EXPECT_EQ(Weir({"status"}).code, 0);
  EXPECT_EQ(Weir({"local", "down", "--force"}).code, 0);
  EXPECT_EQ(Weir({"local", "status"}).code, 1);
}

TEST_F(LocalClusterTest, AnUnknownCommandOrFlagIsNamedWithTheOneThatIsMeant) {
  const auto refused = [&](const std::vector<std::string>& arguments) {
    const Answer answer = Weir(arguments);
    EXPECT_EQ(answer.code, 2) << answer.output;
    return answer.output;
  };
  EXPECT_EQ(refused({"stauts"}),
            "weir: unknown command 'stauts'; did you mean 'status'? `weir --help` lists all");
  EXPECT_EQ(refused({"local", "pu"}),
            "weir: unknown command 'pu'; did you mean 'up'? `weir local --help` lists all");
  EXPECT_EQ(
      refused({"run", "job.yaml", "--wrokers", "2"}),
      "weir: unknown flag '--wrokers'; did you mean '--workers'? `weir run --help` lists all");
  EXPECT_EQ(refused({"frobnicate"}), "weir: unknown command 'frobnicate'; `weir --help` lists all");
  // What is known but wrong is told as before.
  EXPECT_THAT(refused({"run"}), HasSubstr("job is required"));
  EXPECT_THAT(refused({"local", "up", "--log-level", "loud"}), HasSubstr("loud not in {trace,"));
}

}  // namespace
}  // namespace weir
