// SPDX-License-Identifier: Apache-2.0
// One cluster that is not left in peace: job after job, for WEIR_SOAK_SECONDS (120 unless given),
// somebody dies, stalls or joins about each second, and every job ends with exact weights. What is
// done to whom follows from WEIR_SOAK_SEED, which is printed. Longer than ctest's limit: run the
// program itself.
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "tests/faults/fault_test.h"
#include "tests/support/eventually.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kServers = 2;
constexpr int kWorkers = 3;
constexpr int kMostMischief = 10;  // to one job

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  uint64_t number = otherwise;
  if (text != nullptr && !absl::SimpleAtoi(text, &number)) {
    ADD_FAILURE() << name << " is not a number: " << text;
  }
  return number;
}

// "finished weight=W ..." and "values V V ... in runs of N elements" as numbers.
std::vector<double> FinalWeights(const std::string& output) {
  std::vector<double> weights;
  for (const absl::string_view line : absl::StrSplit(output, '\n')) {
    const bool equal = absl::StartsWith(line, "finished weight=");
    if (!equal && !absl::StartsWith(line, "values ")) continue;
    for (const absl::string_view word : absl::StrSplit(line, absl::ByAnyChar(" ="))) {
      double weight = 0;
      if (word == "in" || word == "attempt") break;
      if (absl::SimpleAtod(word, &weight)) weights.push_back(weight);
    }
  }
  return weights;
}

int CountSteps(const std::string& output) {
  int steps = 0;
  for (const absl::string_view line : absl::StrSplit(output, '\n')) {
    steps += absl::StartsWith(line, "step ") && absl::StrContains(line, " weight ");
  }
  return steps;
}

class Soak : public FaultTest {
 public:  // the test takes their addresses
  using Mischief = void (Soak::*)();
  struct Kind {
    std::string name;
    std::vector<std::string> flags;
    uint64_t steps = 0;  // of each worker, about
    std::vector<Mischief> mischief;
    void (Soak::*check)(const std::string& worker) = nullptr;  // of each that has finished
  };

  void RunJob(const Kind& kind);

  // --- Mischief.
  void KillAWorker() {
    const std::string victim = Victim();
    if (victim.empty()) return;
    Note(absl::StrCat("kill ", victim));
    WEIR_ASSERT_OK(cluster_->Kill(victim));
    workers_.erase(std::find(workers_.begin(), workers_.end(), victim));
    killed_.push_back(victim);
  }
  // Until it is the next one's turn: the lease may end meanwhile, or not.
  void StallAWorker() {
    WakeWorker();
    const std::string victim = Victim();
    if (victim.empty()) return;
    Note(absl::StrCat("stall ", victim));
    cluster_->Signal(victim, SIGSTOP);
    stalled_ = victim;
    ever_stalled_.push_back(victim);
  }
  // Shorter than its lease.
  void PauseAWorker() {
    const std::string victim = Victim();
    if (victim.empty()) return;
    Note(absl::StrCat("pause ", victim));
    cluster_->Signal(victim, SIGSTOP);
    Wait(0.5);
    cluster_->Signal(victim, SIGCONT);
  }
  void KillTheCoordinator() {
    Note("kill coordinator");
    WEIR_ASSERT_OK(cluster_->Kill("coordinator"));
    Wait(1);
    WEIR_ASSERT_OK(cluster_->StartCoordinator());
  }
  void KillAServer() {
    const int server = static_cast<int>(random_() % kServers);
    Note(absl::StrCat("kill server-", server));
    WEIR_ASSERT_OK(cluster_->Kill(absl::StrCat("server-", server)));
    Wait(1);
    WEIR_ASSERT_OK(cluster_->StartServer(server));
  }
  void Save() {
    Note("save");
    BeginCheckpoint(job_);
  }

  // --- Checks.
  // Each step doubles what its workers have pulled: 2^120.
  void CheckDoubled(const std::string& worker) {
    EXPECT_THAT(cluster_->Output(worker), HasSubstr("finished weight=1.329228e+36 "));
  }
  // Each example was used once.
  void CheckUsedOnce(const std::string& worker) {
    EXPECT_THAT(cluster_->Output(worker), HasSubstr("finished weight=1 "));
  }
  // Each acknowledged push is in the sum; of each worker that died one more may be, whose
  // acknowledgement nobody read.
  void CheckSum(const std::string& worker) {
    int pushes = 0;
    for (const auto* names : {&workers_, &killed_, &given_up_}) {
      for (const std::string& name : *names) pushes += CountSteps(cluster_->Output(name));
    }
    const auto most = pushes + killed_.size() + given_up_.size();
    const std::vector<double> weights = FinalWeights(cluster_->Output(worker));
    EXPECT_THAT(weights, Not(IsEmpty())) << cluster_->Output(worker);
    for (const double weight : weights) {
      EXPECT_GE(weight, pushes);
      EXPECT_LE(weight, most);
    }
  }

  void Note(const std::string& what) {
    std::cout << absl::StrFormat("%7.2f s  %s: %s",
                                 absl::ToDoubleSeconds(Clock::Real().Now() - begun_at_), job_, what)
              << std::endl;
  }

  const absl::Time begun_at_ = Clock::Real().Now();
  std::mt19937_64 random_;

 private:
  // Reads output for up to so many seconds.
  void Wait(double most_seconds) {
    std::uniform_real_distribution<double> seconds(0, most_seconds);
    cluster_->WaitUntil([] { return false; }, absl::Seconds(seconds(random_)));
  }
  // A worker that is in the middle of training while another is too, which no lease will take from
  // it; none: "".
  std::string Victim() {
    std::vector<std::string> training;
    for (const std::string& worker : workers_) {
      const bool steady = std::count(ever_stalled_.begin(), ever_stalled_.end(), worker) == 0;
      if (steady && absl::StrContains(cluster_->Output(worker), "step ")) {
        training.push_back(worker);
      }
    }
    const v1::JobView view = ShowJob(job_).view();
    if (training.size() < 2 || view.members_size() < 2 || view.state() != v1::JOB_STATE_RUNNING) {
      return "";
    }
    return training[random_() % training.size()];
  }
  void WakeWorker() {
    if (stalled_.empty()) return;
    Note(absl::StrCat("wake ", stalled_));
    cluster_->Signal(stalled_, SIGCONT);
    stalled_.clear();
  }
  void StartOne(const Kind& kind) {
    const std::string name = absl::StrCat("w", ++started_);
    Note(absl::StrCat("start ", name));
    std::vector<std::string> flags = {"--job",         job_, "--workers", absl::StrCat(kWorkers),
                                      "--min-workers", "1"};
    flags.insert(flags.end(), kind.flags.begin(), kind.flags.end());
    StartWorker(name, flags);
    WEIR_ASSERT_OK(cluster_->WaitForLine(name, "joined rank=", kSoon));
    workers_.push_back(name);
  }
  // How far the foremost worker is.
  uint64_t Step() {
    uint64_t step = 0;
    const v1::JobStatus status = ShowJob(job_);
    for (const v1::WorkerStatus& worker : status.workers()) {
      step = std::max<uint64_t>(step, worker.progress().step());
    }
    return step;
  }
  void Finish(const Kind& kind);
  void AwaitEmptyServers();

  std::string job_;
  int jobs_ = 0;
  int started_ = 0;
  std::vector<std::string> workers_;   // of this job, those that may finish
  std::vector<std::string> killed_;    // of this job
  std::vector<std::string> given_up_;  // of this job: stalled for longer than the lease
  std::vector<std::string> ever_stalled_;
  std::string stalled_;
};

void Soak::RunJob(const Kind& kind) {
  job_ = absl::StrCat(kind.name, "-", ++jobs_);
  workers_.clear();
  killed_.clear();
  given_up_.clear();
  ever_stalled_.clear();
  for (int i = 0; i < 2; ++i) ASSERT_NO_FATAL_FAILURE(StartOne(kind));
  // The end comes in peace: who joins a job that has ended is told so.
  for (int i = 0; i < kMostMischief && Step() < kind.steps / 2; ++i) {
    Wait(1.5);
    if (ShowJob(job_).workers_size() < kWorkers) {
      ASSERT_NO_FATAL_FAILURE(StartOne(kind));
    }
    ASSERT_NO_FATAL_FAILURE((this->*kind.mischief[random_() % kind.mischief.size()])());
  }
  WakeWorker();
  ASSERT_NO_FATAL_FAILURE(Finish(kind));
  AwaitEmptyServers();
}

void Soak::Finish(const Kind& kind) {
  std::vector<std::string> finished;
  for (const std::string& worker : workers_) {
    WEIR_ASSERT_OK_AND_ASSIGN(const ExitState state, cluster_->WaitForExit(worker, 2 * kSoon));
    const bool stalled = std::count(ever_stalled_.begin(), ever_stalled_.end(), worker) > 0;
    if (stalled && state.code == 1) {
      Note(absl::StrCat(worker, " was given up"));
      given_up_.push_back(worker);
      continue;
    }
    EXPECT_TRUE(state.ok()) << worker << ": " << state.ToString() << "\n"
                            << cluster_->Output(worker);
    finished.push_back(worker);
  }
  workers_ = finished;
  ASSERT_THAT(workers_, Not(IsEmpty()));
  for (const std::string& worker : workers_) (this->*kind.check)(worker);
  EXPECT_EQ(ShowJob(job_).view().state(), v1::JOB_STATE_FINISHED) << ShowJob(job_).DebugString();
  Note("finished");
}

// A job that has ended leaves nothing behind.
void Soak::AwaitEmptyServers() {
  v1::StatusReply status;
  const auto empty = [&] {
    auto reply = coordinator_->Call(&CoordinatorStub::Status, v1::StatusRequest(),
                                    Clock::Real().Now() + kSoon);
    if (!reply.ok()) return false;
    status = *reply;
    return std::all_of(
        status.servers().begin(), status.servers().end(),
        [](const v1::ServerStatus& server) { return server.live() && server.memory_bytes() == 0; });
  };
  EXPECT_TRUE(Eventually(empty, kSoon)) << status.DebugString();
}

TEST_F(Soak, EveryJobOfAClusterThatIsNotLeftInPeaceEndsWithExactWeights) {
  const absl::Time until = begun_at_ + absl::Seconds(FromEnvironment("WEIR_SOAK_SECONDS", 120));
  const uint64_t seed = FromEnvironment("WEIR_SOAK_SEED", std::random_device()());
  std::cout << "WEIR_SOAK_SEED=" << seed << std::endl;
  random_.seed(seed);
  const std::vector<Kind> kinds = {
      {.name = "sync",
       .flags = {"--steps", "120", "--step-ms", "60", "--gradient", "weights"},
       .steps = 120,
       .mischief = {&Soak::KillAWorker, &Soak::StallAWorker, &Soak::PauseAWorker,
                    &Soak::KillTheCoordinator, &Soak::KillAServer, &Soak::Save},
       .check = &Soak::CheckDoubled},
      // A worker that dies has used examples of which nobody knows yet: here none does.
      {.name = "data",
       .flags = {"--async", "--step-ms", "30", "--gradient", "data", "--examples", "10000"},
       .steps = 10000 / 10 / kWorkers,
       .mischief = {&Soak::PauseAWorker, &Soak::KillTheCoordinator, &Soak::KillAServer,
                    &Soak::Save},
       .check = &Soak::CheckUsedOnce},
      // A server that dies takes pushes with it that were acknowledged: here none does.
      {.name = "async",
       .flags = {"--async", "--steps", "200", "--step-ms", "40"},
       .steps = 200,
       .mischief = {&Soak::KillAWorker, &Soak::StallAWorker, &Soak::PauseAWorker,
                    &Soak::KillTheCoordinator, &Soak::Save},
       .check = &Soak::CheckSum},
      {.name = "bounded",
       .flags = {"--bounded-staleness", "3", "--steps", "200", "--step-ms", "40"},
       .steps = 200,
       .mischief = {&Soak::KillAWorker, &Soak::StallAWorker, &Soak::PauseAWorker,
                    &Soak::KillTheCoordinator, &Soak::Save},
       .check = &Soak::CheckSum},
  };
  StartCluster({.servers = kServers, .lease = absl::Seconds(3)});
  for (size_t job = 0; job < kinds.size() || Clock::Real().Now() < until; ++job) {
    ASSERT_NO_FATAL_FAILURE(RunJob(kinds[job % kinds.size()]));
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace weir
