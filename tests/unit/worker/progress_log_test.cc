// SPDX-License-Identifier: Apache-2.0
#include "worker/progress_log.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/manual_executor.h"
#include "tests/support/quiet_session.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"
#include "worker/run_summary.h"

namespace weir {
namespace {

using ::testing::ElementsAre;

class ProgressLogTest : public testing::Test {
 protected:
  void SetUp() override { display_ = std::tmpfile(); }
  void TearDown() override { std::fclose(display_); }

  ProgressLog::Options Options() {
    ProgressLog::Options options;
    options.metrics_file = file_;
    options.start_anew = true;
    options.display = display_;
    options.log_every = 2;
    options.train_examples = 100;
    options.total_examples = 400;
    return options;
  }

  std::string Shown() {
    std::rewind(display_);
    std::string text(4096, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), display_));
    return text;
  }

  // Two steps of 10 examples, 2 s each, from position 0.
  void AddTwo(ProgressLog& log) {
    for (uint64_t step = 0; step < 2; ++step) {
      clock_.SetNow(clock_.Now() + absl::Seconds(2));
      StepRecord record;
      record.step = step;
      record.examples = 10;
      record.position = 10.0 * static_cast<double>(step + 1);
      record.staleness = step;
      record.seconds = {0.25, 0.5, 3, 0.75, static_cast<double>(step)};
      record.metrics = {{"loss", step == 0 ? 1.0 : 2.0}, {"accuracy", 0.25}};
      log.Add(record);
    }
  }

  const TempFolder folder_;
  const std::string file_ = folder_ / "metrics.jsonl";
  std::FILE* display_ = nullptr;
  FakeClock clock_;
  QuietSession session_;
};

// 20 of 400 examples took 4 s: 76 s are left.
TEST_F(ProgressLogTest, ALineTellsEpochLossSpeedStalenessAndTimeLeft) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto log, ProgressLog::Create(Options(), session_, clock_));
  AddTwo(*log);
  EXPECT_EQ(
      Shown(),
      "epoch 0.20 of 4  own step 2  loss 1.5000  accuracy 0.2500  5 samples/s  staleness 0.5  "
      "1:16 left\n");
}

TEST_F(ProgressLogTest, InSyncAWorkersStepIsTheJobs) {
  ProgressLog::Options options = Options();
  options.sync = true;
  WEIR_ASSERT_OK_AND_ASSIGN(const auto log, ProgressLog::Create(options, session_, clock_));
  AddTwo(*log);
  EXPECT_EQ(Shown().substr(0, 25), "epoch 0.20 of 4  step 2  ");
}

TEST_F(ProgressLogTest, ATerminalsLineIsRedrawnInPlace) {
  ProgressLog::Options options = Options();
  options.terminal = true;
  WEIR_ASSERT_OK_AND_ASSIGN(auto log, ProgressLog::Create(options, session_, clock_));
  AddTwo(*log);
  EXPECT_EQ(Shown().substr(0, 4), "\r\033[K");
  EXPECT_EQ(Shown().back(), 't');
  log.reset();
  EXPECT_EQ(Shown().back(), '\n');
}

TEST_F(ProgressLogTest, EachIntervalIsALineOfJson) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto log, ProgressLog::Create(Options(), session_, clock_));
  AddTwo(*log);
  log->AddEvaluation(2, 20, {{"accuracy", 0.5}});
  std::ifstream file(file_);
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  const auto interval = nlohmann::json::parse(line);
  EXPECT_EQ(interval["step"], 2);
  EXPECT_EQ(interval["examples"], 20);
  EXPECT_EQ(interval["epoch"], 0.2);
  EXPECT_EQ(interval["loss"], 1.5);
  EXPECT_EQ(interval["samples_per_second"], 5);
  EXPECT_EQ(interval["staleness"], 0.5);
  EXPECT_EQ(interval["worker"], 0);
  // 4.5 s and 5.5 s, of which 0 s and 1 s were waits.
  EXPECT_EQ(interval["step_seconds"],
            nlohmann::json::parse(
                R"({"input": 0.25, "pull": 0.5, "compute": 3, "push": 0.75, "wait": 0.5})"));
  EXPECT_EQ(interval["step_shares"],
            nlohmann::json::parse(
                R"({"input": 0.05, "pull": 0.1, "compute": 0.6, "push": 0.15, "wait": 0.1})"));
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(nlohmann::json::parse(line)["test_accuracy"], 0.5);
}

TEST_F(ProgressLogTest, WorkersThatShareAFileLoseNoLine) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto first, ProgressLog::Create(Options(), session_, clock_));
  ProgressLog::Options options = Options();
  options.start_anew = false;
  WEIR_ASSERT_OK_AND_ASSIGN(const auto second, ProgressLog::Create(options, session_, clock_));
  AddTwo(*first);
  AddTwo(*second);
  AddTwo(*first);
  AddTwo(*second);
  std::ifstream file(file_);
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  }
  EXPECT_EQ(lines, 4);
}

TEST_F(ProgressLogTest, ReportsAreMeansOverTheInterval) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto log, ProgressLog::Create(Options(), session_, clock_));
  AddTwo(*log);
  log->Flush();  // nothing more to report
  ASSERT_EQ(session_.reported.size(), 1u);
  EXPECT_EQ(session_.reported[0].step, 2u);
  EXPECT_EQ(session_.reported[0].metrics.at("loss"), 1.5);
  EXPECT_EQ(session_.reported[0].step_seconds.wait, 0.5);
}

TEST_F(ProgressLogTest, AFileThatCannotBeOpenedIsNamed) {
  ProgressLog::Options options = Options();
  options.metrics_file = "/nowhere/metrics.jsonl";
  EXPECT_THAT(ProgressLog::Create(options, session_, clock_).status(),
              HasStatus(absl::StatusCode::kUnavailable,
                        "/nowhere/metrics.jsonl: cannot be opened for writing"));
}

TEST(RunSummary, IsJsonWithTheNamesOfItsFields) {
  RunSummary summary;
  summary.test_accuracy = 0.91;
  summary.regime = "async";
  summary.checkpoint = "0001";
  const auto json = nlohmann::json::parse(ToJson(summary));
  for (const char* key :
       {"test_accuracy", "train_loss", "steps", "samples_per_second", "regime", "servers",
        "workers", "checkpoint", "wall_seconds", "lost_steps", "seed"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["test_accuracy"], 0.91);
}

}  // namespace
}  // namespace weir
