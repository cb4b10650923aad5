// SPDX-License-Identifier: Apache-2.0
// What every JobSession promises to a job's only worker: in one process, and on a cluster.
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "checkpoint/manifest_store.h"
#include "common/status_macros.h"
#include "tests/support/client_values.h"
#include "tests/support/eventually.h"
#include "tests/support/hand_made_view.h"
#include "tests/support/mini_cluster.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"
#include "weir/job.h"
#include "worker/embedded/local_job.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

enum class Kind { kEmbedded, kCluster };

constexpr absl::Duration kSoon = absl::Seconds(20);
constexpr absl::Duration kShort = absl::Milliseconds(200);

// Who has no more part in a job learns it by either, as the job has ended or goes on without it.
MATCHER(IsOver, "") {
  return absl::IsAborted(arg) || absl::IsFailedPrecondition(arg);
}

class JobSessionContract : public ::testing::TestWithParam<Kind> {
 protected:
  JobSessionContract() {
    spec_.set_name("contract");
    spec_.set_workers(1);
    spec_.mutable_regime()->set_kind(v1::REGIME_ASYNC);
    spec_.set_train_examples(10);
    spec_.mutable_length()->set_epochs(2);
    spec_.mutable_data()->mutable_batch()->set_global(4);
  }

  // A new run, of a worker that has joined and no more.
  void Join() {
    job_.parameters.reset();
    job_.session.reset();
    absl::StatusOr<Job> joined = GetParam() == Kind::kEmbedded ? OpenLocally() : JoinCluster();
    WEIR_ASSERT_OK(joined);
    job_ = *std::move(joined);
  }

  // Declares, and assigns the initial values where there is no checkpoint, so that the job runs.
  void Start() {
    WEIR_ASSERT_OK(session().Declare(declaration_));
    WEIR_ASSERT_OK_AND_ASSIGN(const JobInfo info, session().WaitUntilReady(kSoon));
    if (info.state == JobState::kRunning) return;
    WEIR_ASSERT_OK(job_.parameters->Assign(PushItems({{1, 2}})));
    WEIR_ASSERT_OK(session().ReportInitialised());
    WEIR_ASSERT_OK(session().WaitUntilReady(kSoon));
  }

  void Run() {
    ASSERT_NO_FATAL_FAILURE(Join());
    Start();
  }

  // One step on `examples`, told to those who ask how far the job is.
  void Train(uint64_t step, uint64_t examples) {
    PushOptions options;
    options.step = options.group_step = step;
    options.examples = examples;
    options.consumed = consumed_ += examples;
    WEIR_ASSERT_OK(job_.parameters->Push(PushItems({{1, 1}}), options));
    Progress progress;
    progress.step = step + 1;
    progress.examples = consumed_;
    progress.metrics["loss"] = 0.5;
    session().ReportProgress(progress);
  }

  JobSession& session() { return *job_.session; }

  // Where the job's manifests are.
  std::string CheckpointFolder() const {
    return GetParam() == Kind::kEmbedded ? folder_ / "checkpoints"
                                         : folder_ / "coordinator/checkpoints";
  }

  TempFolder folder_;
  v1::JobSpec spec_;
  Declaration declaration_ = SgdOver({2});
  uint64_t memory_limit_bytes_ = 0;  // of the job
  uint64_t consumed_ = 0;
  std::unique_ptr<MiniCluster> cluster_;
  Job job_;

 private:
  absl::StatusOr<Job> OpenLocally() {
    LocalJobOptions options;
    options.spec = spec_;
    options.data_dir = folder_.path();
    options.memory_limit_bytes = memory_limit_bytes_;
    return OpenLocalJob(options);
  }

  absl::StatusOr<Job> JoinCluster() {
    if (cluster_ == nullptr) {
      MiniCluster::Options options;
      options.folder = folder_.path();
      options.servers = 1;
      WEIR_ASSIGN_OR_RETURN(cluster_, MiniCluster::Start(options));
    }
    spec_.set_max_bytes(memory_limit_bytes_);
    JoinOptions options;
    options.coordinator = cluster_->coordinator();
    options.serialized_spec = spec_.SerializeAsString();
    options.timeout = kSoon;
    return JoinJob(options);
  }
};

TEST_P(JobSessionContract, TheOnlyWorkerInitialisesTheJobAndItRuns) {
  ASSERT_NO_FATAL_FAILURE(Join());
  EXPECT_NE(session().Info().run_id, 0u);
  EXPECT_EQ(session().Info().state, JobState::kWaiting);
  WEIR_ASSERT_OK(session().Declare(declaration_));
  WEIR_ASSERT_OK_AND_ASSIGN(JobInfo info, session().WaitUntilReady(kSoon));
  EXPECT_EQ(info.state, JobState::kInitialising);
  EXPECT_TRUE(info.initialiser);
  EXPECT_TRUE(info.member);
  EXPECT_EQ(info.rank, 0u);
  EXPECT_EQ(info.attempt, 1u);
  EXPECT_EQ(info.servers, 1u);
  EXPECT_THAT(info.members, SizeIs(1));
  WEIR_ASSERT_OK(job_.parameters->Assign(PushItems({{1, 2}})));
  WEIR_ASSERT_OK(session().ReportInitialised());
  ASSERT_TRUE(Eventually([&] { return session().Info().state == JobState::kRunning; }));
  WEIR_ASSERT_OK_AND_ASSIGN(info, session().WaitUntilReady(kSoon));
  EXPECT_FALSE(info.initialiser);
  EXPECT_THAT(PullAll(*job_.parameters, declaration_), ElementsAre(ElementsAre(1, 2)));
}

TEST_P(JobSessionContract, UndeclaredJobIsNotReadyAndSaysWhatIsMissing) {
  ASSERT_NO_FATAL_FAILURE(Join());
  const absl::Status status = session().WaitUntilReady(kShort).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status) || absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("declare"));
}

TEST_P(JobSessionContract, TheSameDeclarationMayComeAgainAndAnotherIsRefusedByItsField) {
  ASSERT_NO_FATAL_FAILURE(Join());
  WEIR_ASSERT_OK(session().Declare(declaration_));
  WEIR_EXPECT_OK(session().Declare(declaration_));
  Declaration other = declaration_;
  other.variables[0].shape = {3};
  EXPECT_THAT(session().Declare(other),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("variables[0].shape[0]")));
}

TEST_P(JobSessionContract, MalformedDeclarationIsRefusedAndAGoodOneIsTaken) {
  ASSERT_NO_FATAL_FAILURE(Join());
  Declaration twice = SgdOver({2, 2});
  twice.variables[1].name = twice.variables[0].name;
  EXPECT_THAT(session().Declare(twice),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr(twice.variables[0].name)));
  WEIR_EXPECT_OK(session().Declare(declaration_));
}

TEST_P(JobSessionContract, DeclarationOverTheLimitIsRefusedEachTimeAndASmallerOneIsTaken) {
  memory_limit_bytes_ = 1 << 20;
  ASSERT_NO_FATAL_FAILURE(Join());
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(session().Declare(SgdOver({1 << 20})),
                HasStatus(absl::StatusCode::kResourceExhausted, HasSubstr("1048576")));
    EXPECT_FALSE(session().WaitUntilReady(kShort).ok());
  }
  WEIR_ASSERT_OK(session().Declare(declaration_));
  WEIR_EXPECT_OK(session().WaitUntilReady(kSoon));
}

TEST_P(JobSessionContract, InitialValuesAreReportedWhenTheyAreWantedAndMayBeAgain) {
  ASSERT_NO_FATAL_FAILURE(Join());
  EXPECT_THAT(session().ReportInitialised(),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("")));
  ASSERT_NO_FATAL_FAILURE(Start());
  WEIR_EXPECT_OK(session().ReportInitialised());
}

TEST_P(JobSessionContract, BarrierSumsWhatItsMembersBring) {
  ASSERT_NO_FATAL_FAILURE(Run());
  WEIR_ASSERT_OK_AND_ASSIGN(const BarrierResult result,
                            session().Barrier("end", {{"hits", 1.5}, {"seen", 4}}, {kSoon}));
  EXPECT_EQ(result.members, 1u);
  EXPECT_THAT(result.sums, ElementsAre(std::pair("hits", 1.5), std::pair("seen", 4.0)));
}

TEST_P(JobSessionContract, BarrierWithoutANameIsRefused) {
  ASSERT_NO_FATAL_FAILURE(Run());
  EXPECT_THAT(session().Barrier("", {}, {kSoon}),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("name")));
}

// Two epochs of 10 in batches of 4: the last of an epoch is short.
TEST_P(JobSessionContract, EveryExampleIsHandedOutOnceInOrderAndInWholeBatches) {
  ASSERT_NO_FATAL_FAILURE(Run());
  uint64_t next = 0;  // over both epochs
  TakenRanges taken;
  while (!taken.end_of_data) {
    WEIR_ASSERT_OK_AND_ASSIGN(taken, session().TakeRanges(4, kSoon));
    for (const DataRange& range : taken.ranges) {
      EXPECT_EQ(range.epoch * 10 + range.first, next);
      EXPECT_TRUE(range.end == 10 || (range.end - range.first) % 4 == 0) << range.end;
      next = range.epoch * 10 + range.end;
    }
  }
  EXPECT_EQ(next, 20u);
  WEIR_ASSERT_OK_AND_ASSIGN(taken, session().TakeRanges(4, kSoon));
  EXPECT_TRUE(taken.end_of_data);
  EXPECT_THAT(taken.ranges, IsEmpty());
}

TEST_P(JobSessionContract, DataIsHandedOutOnlyWhenTheJobRuns) {
  ASSERT_NO_FATAL_FAILURE(Join());
  EXPECT_THAT(session().TakeRanges(4, kShort),
              HasStatus(absl::StatusCode::kUnavailable, HasSubstr("declare")));
  ASSERT_NO_FATAL_FAILURE(Start());
  WEIR_ASSERT_OK_AND_ASSIGN(const TakenRanges taken, session().TakeRanges(4, kSoon));
  EXPECT_EQ(taken.ranges.front().first, 0u);
}

TEST_P(JobSessionContract, JobWithoutATrainingSetHasNoDataToHandOut) {
  spec_.clear_train_examples();
  spec_.mutable_length()->set_steps(10);
  ASSERT_NO_FATAL_FAILURE(Run());
  EXPECT_THAT(session().TakeRanges(4, kSoon),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("training set")));
}

TEST_P(JobSessionContract, SavedCheckpointIsWhereTheNextRunGoesOn) {
  ASSERT_NO_FATAL_FAILURE(Run());
  WEIR_ASSERT_OK(session().TakeRanges(4, kSoon));
  Train(0, 4);
  const Values weights = PullAll(*job_.parameters, declaration_);
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string id, session().SaveCheckpoint({{"loss", 0.25}}));
  ManifestStore manifests(FileSystem::Real(), CheckpointFolder());
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::Manifest manifest, manifests.Load("contract", id));
  EXPECT_EQ(manifest.metrics().at("loss"), 0.25);
  WEIR_ASSERT_OK(session().Leave(true, ""));

  spec_.set_resume(id);
  ASSERT_NO_FATAL_FAILURE(Run());
  const JobInfo info = session().Info();
  EXPECT_EQ(info.checkpoint_id, id);
  EXPECT_EQ(info.resume_examples, 4u);
  EXPECT_THAT(info.resume_group_steps, ElementsAre(0, 1));
  EXPECT_EQ(PullAll(*job_.parameters, declaration_), weights);
  WEIR_ASSERT_OK_AND_ASSIGN(const TakenRanges taken, session().TakeRanges(4, kSoon));
  ASSERT_FALSE(taken.ranges.empty());
  EXPECT_EQ(taken.ranges.front().epoch, 0u);
  EXPECT_EQ(taken.ranges.front().first, 4u);
}

TEST_P(JobSessionContract, CheckpointsAreSavedAsProgressIsReported) {
  spec_.mutable_checkpoint()->mutable_every()->set_examples(8);
  ASSERT_NO_FATAL_FAILURE(Run());
  ManifestStore manifests(FileSystem::Real(), CheckpointFolder());
  const auto saved = [&] {
    return manifests.List("contract").value_or(std::vector<std::string>());
  };
  Train(0, 4);
  EXPECT_THAT(saved(), IsEmpty());
  Train(1, 4);
  EXPECT_TRUE(Eventually([&] { return saved().size() == 1; }));
}

TEST_P(JobSessionContract, AnotherAttemptIsWaitedForWhereThereIsNoneYet) {
  ASSERT_NO_FATAL_FAILURE(Run());
  const uint64_t attempt = session().Info().attempt;
  WEIR_EXPECT_OK(session().WaitForOtherAttempt(attempt + 1, kSoon));
  const absl::Status none = session().WaitForOtherAttempt(attempt, kShort);
  EXPECT_TRUE(absl::IsDeadlineExceeded(none) || absl::IsAborted(none)) << none;
}

TEST_P(JobSessionContract, TheOnlyWorkerHasNoOthersToLeaveTheJobTo) {
  ASSERT_NO_FATAL_FAILURE(Run());
  WEIR_ASSERT_OK_AND_ASSIGN(const bool left, session().LeaveToOthers("its source has ended"));
  EXPECT_FALSE(left);
  EXPECT_TRUE(session().Info().member);
  WEIR_EXPECT_OK(session().Barrier("end", {}, {kSoon}));
  WEIR_ASSERT_OK(session().Leave(true, ""));
  EXPECT_TRUE(Eventually([&] { return !session().Info().member; }));
}

TEST_P(JobSessionContract, WhoHasLeftHasNoMorePartInTheJob) {
  ASSERT_NO_FATAL_FAILURE(Run());
  WEIR_ASSERT_OK(session().Leave(true, ""));
  WEIR_EXPECT_OK(session().Leave(true, ""));
  EXPECT_FALSE(session().Info().member);
  EXPECT_THAT(session().WaitUntilReady(kShort).status(), IsOver());
  EXPECT_THAT(session().WaitForOtherAttempt(session().Info().attempt, kShort), IsOver());
  EXPECT_THAT(session().Barrier("late", {}, {kShort}).status(), IsOver());
  EXPECT_THAT(session().TakeRanges(4, kShort).status(), IsOver());
  EXPECT_THAT(session().ReportInitialised(), IsOver());
}

INSTANTIATE_TEST_SUITE_P(EverySession, JobSessionContract,
                         ::testing::Values(Kind::kEmbedded, Kind::kCluster),
                         [](const ::testing::TestParamInfo<Kind>& info) {
                           return info.param == Kind::kEmbedded ? "Embedded" : "Cluster";
                         });

}  // namespace
}  // namespace weir
