// SPDX-License-Identifier: Apache-2.0
// `weir run` with the stock worker on a tiny data set.
#pragma once

#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/text_file.h"
#include "tests/support/eventually.h"
#include "tests/support/idx_files.h"
#include "tests/support/program.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace weir {

inline constexpr absl::Duration kLong = absl::Minutes(4);

inline constexpr char kJob[] = R"(name: tiny
model: {builtin: mlp, options: {hidden: [32]}}
data:
  train: train-images-idx3-ubyte
  test: t10k-images-idx3-ubyte
  batch: {per_replica: 16}
workers: 2
regime: async
optimizers: {adam: {learning_rate: 0.01}}
epochs: 3
log_every: 5
)";

class RunTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { UseOneThread(); }

  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    WriteIdxFiles(folder_, 512, 128);
    WriteJob(kJob);
  }

  void WriteJob(const std::string& text) { WEIR_ASSERT_OK(WriteTextFile(job_, text)); }

  // Another command of weir, to its end.
  static Answer Weir(const std::vector<std::string>& arguments) {
    return AnswerOf(*StartProgram("weir", arguments), kLong);
  }

  std::unique_ptr<ChildProcess> Start(std::vector<std::string> flags) {
    std::vector<std::string> arguments = {
        "run", job_, "--runs", folder_ + "/runs", "--state", folder_ + "/local"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return StartProgram("weir", arguments);
  }

  Answer Run(const std::vector<std::string>& flags) { return AnswerOf(*Start(flags), kLong); }

  // The process of a run's child, by a part of its command line.
  static pid_t ChildOf(const ChildProcess& weir, const std::string& part) {
    const auto children =
        ReadTextFile(absl::StrCat("/proc/", weir.pid(), "/task/", weir.pid(), "/children"));
    EXPECT_THAT(children, IsOk());
    for (absl::string_view child : absl::StrSplit(*children, ' ', absl::SkipWhitespace())) {
      const auto command = ReadTextFile(absl::StrCat("/proc/", child, "/cmdline"));
      pid_t pid = 0;
      if (command.ok() && absl::StrContains(*command, part) && absl::SimpleAtoi(child, &pid)) {
        return pid;
      }
    }
    ADD_FAILURE() << "no child with " << part << " in its command line";
    return 0;
  }

  // Kills a child once the job has come to some step, and waits for the end of the run.
  Answer RunAndKill(const std::string& part) {
    const auto weir = Start({"--servers", "2", "--set", "regime=sync", "--set", "epochs=200",
                             "--set", "checkpoint.every=200 steps"});
    AwaitCheckpoint(*weir, folder_ + "/runs/tiny");
    kill(ChildOf(*weir, part), SIGKILL);
    return AnswerOf(*weir, kLong);
  }

  // Fails the test where the run ends before it has said so. Returns what it has said.
  static std::string AwaitOutput(ChildProcess& weir, const std::string& part) {
    const absl::Time deadline = Clock::Real().Now() + kLong;
    std::string output;
    while (!absl::StrContains(output, part) && Clock::Real().Now() < deadline) {
      absl::StrAppend(&output, absl::StrJoin(weir.ReadLines(), "\n"), "\n");
      if (!absl::StrContains(output, part) && weir.WaitFor(Clock::Real(), absl::Milliseconds(20))) {
        absl::StrAppend(&output, absl::StrJoin(weir.ReadLines(), "\n"));
        break;
      }
    }
    EXPECT_THAT(output, ::testing::HasSubstr(part));
    return output;
  }

  // Ids of the checkpoints in the run's own cluster, oldest first.
  std::vector<std::string> Checkpoints() {
    std::vector<std::string> ids;
    const std::string folder = folder_ + "/runs/tiny/cluster/coordinator/checkpoints/tiny";
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
      if (entry.path().extension() == ".manifest") ids.push_back(entry.path().stem());
    }
    std::sort(ids.begin(), ids.end());
    return ids;
  }

  // Kills the run, and with it all of its processes, when it has so many checkpoints.
  void KillWithCheckpoints(ChildProcess& weir, size_t number) {
    const absl::Time deadline = Clock::Real().Now() + kLong;
    while (Checkpoints().size() < number && Clock::Real().Now() < deadline) {
      ASSERT_FALSE(weir.WaitFor(Clock::Real(), absl::Milliseconds(20)))
          << absl::StrJoin(weir.ReadLines(), "\n");
    }
    weir.Signal(SIGKILL);
    ASSERT_TRUE(weir.WaitFor(Clock::Real(), absl::Seconds(30)));
  }

  // Of a cluster whose logs are in `folder`. Fails the test where the run ends before it.
  static void AwaitCheckpoint(ChildProcess& weir, const std::string& folder) {
    const auto saved = [&] {
      const auto log = ReadTextFile(folder + "/logs/coordinator.log");
      return log.ok() && absl::StrContains(*log, "checkpoint committed");
    };
    EXPECT_TRUE(Eventually([&] { return saved() || weir.Ended(); }, kLong));
    EXPECT_FALSE(weir.Ended()) << absl::StrJoin(weir.ReadLines(), "\n");
  }

  nlohmann::json Summary() {
    const auto text = ReadTextFile(folder_ + "/runs/tiny/summary.json");
    EXPECT_THAT(text, IsOk());
    return nlohmann::json::parse(text.ok() ? *text : "{}");
  }

  const TempFolder temp_;  // of this process: the same test may run beside it
  const std::string folder_ = temp_.path();
  const std::string job_ = folder_ + "/job.yaml";
};

}  // namespace weir
