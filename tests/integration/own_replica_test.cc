// SPDX-License-Identifier: Apache-2.0
// examples/own_replica: a program of one's own, with its model, its loop and two optimizers.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/idx_files.h"
#include "tests/support/program.h"
#include "tests/support/temp_folder.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kLong = absl::Minutes(2);

// 256 examples in steps of 16: 144 steps, of which 96 reconstruct.
constexpr char kJob[] = R"(name: own
model: {replica: own-replica, options: {width: 16}}
data:
  train: train-images-idx3-ubyte
  test: t10k-images-idx3-ubyte
  batch: {global: 16}
regime: sync
replicas_per_worker: 2
optimizers: {adam: {learning_rate: 3e-3}, sgd: {learning_rate: 0.1, momentum: 0.9}}
epochs: 9
log_every: 3
checkpoint: {at_end: false}
)";

class OwnReplica : public testing::Test {
 protected:
  void SetUp() override {
    WriteIdxFiles(folder_.path(), 256, 64);
    std::ofstream(folder_ / "job.yaml") << kJob;
  }

  Answer Run(const std::vector<std::string>& flags, const std::string& program = "own_replica") {
    std::vector<std::string> arguments = {"--job", folder_ / "job.yaml", "--run-dir",
                                          folder_ / "run"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return AnswerOf(*StartProgram(program, arguments), kLong);
  }

  nlohmann::json Summary() const { return nlohmann::json::parse(folder_.Read("run/summary.json")); }

  TempFolder folder_;
};

TEST_F(OwnReplica, TrainsItsOwnModelInItsOwnLoop) {
  const Answer answer = Run({"--local"});
  EXPECT_EQ(answer.code, 0) << answer.output;
  EXPECT_EQ(Summary()["steps"], 144);
  EXPECT_GE(Summary()["test_accuracy"], 0.9);
  // Only the step that the loop logs is shown.
  EXPECT_THAT(folder_.Read("run/metrics.jsonl"),
              AllOf(HasSubstr("\"loss\":"), Not(HasSubstr("\"reconstruction\":"))));
  EXPECT_THAT(folder_.Read("run/job.yaml"), HasSubstr("model: {replica: \"own-replica\""));
}

TEST_F(OwnReplica, HasTheFlagsOfWeirWorker) {
  const Answer check = Run({"--check"});
  EXPECT_EQ(check.code, 0) << check.output;
  EXPECT_THAT(check.output, HasSubstr("fine. own-replica: 6 variables, "));
  const Answer printed = Run({"--print-job"});
  std::ofstream(folder_ / "job.yaml") << printed.output;
  EXPECT_EQ(Run({"--print-job"}).output, printed.output);
  const Answer bad = Run({"--local", "--set", "optimizers={lamb: {kind: sgd, learning_rate: 1}}"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.output, HasSubstr("own_replica: optimizers.lamb: the model has no optimizer of "
                                    "this name; it has adam, sgd"));
}

TEST_F(OwnReplica, IsNotWhatTheStockWorkerHas) {
  const Answer answer = Run({"--local"}, "weir-worker");
  EXPECT_EQ(answer.code, 2);
  EXPECT_THAT(answer.output, HasSubstr("the job trains the replica class \"own-replica\", and this "
                                       "program has none"));
}

}  // namespace
}  // namespace weir
