// SPDX-License-Identifier: Apache-2.0
// Whatever is wrong with a checkpoint: it is named, and nothing of it is served.
#include "tests/integration/checkpoint_fixture.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DamagedCheckpoint : public CheckpointTest {
 protected:
  void SetUp() override {
    WEIR_ASSERT_OK_AND_ASSIGN(job_, Start(Momentum(), 2));
    WEIR_ASSERT_OK(job_->Train(0));
    WEIR_ASSERT_OK_AND_ASSIGN(parts_, Save(*job_, 1));
    resumed_ = Resume(Momentum(), 1, 1);
    WEIR_ASSERT_OK(resumed_->Enter(v1::JOB_STATE_RESTORING));
  }

  absl::Status RestoreAndCheckNothingIsServed(const v1::RestoreRequest& request) {
    PartFetcher local(FileSystem::Real(), {temp_.path()});
    const absl::Status status = RestoreOn(*resumed_, 0, request, local);
    EXPECT_FALSE(status.ok());
    EXPECT_FALSE(resumed_->Pull().ok());
    return status;
  }

  static v1::Optimizer Momentum() {
    v1::Optimizer optimizer;
    optimizer.mutable_learning_rate()->set_base(0.05);
    optimizer.mutable_sgd()->set_momentum(0.9);
    return optimizer;
  }

  std::unique_ptr<CoreJob> job_;
  std::vector<v1::CheckpointPart> parts_;
  std::unique_ptr<CoreJob> resumed_;
};

TEST_F(DamagedCheckpoint, AFlippedBitInTheLastPartIsFoundAndTheFileIsNamed) {
  for (const v1::PartFile& file : parts_[1].files()) {
    if (file.name().find(".sst") == std::string::npos) continue;
    const std::string path = parts_[1].directory() + "/" + file.name();
    WEIR_ASSERT_OK_AND_ASSIGN(std::string bytes, FileSystem::Real().ReadFile(path, 1 << 30));
    bytes[bytes.size() / 2] ^= 4;
    WEIR_ASSERT_OK(FileSystem::Real().WriteFile(path, bytes));
    EXPECT_THAT(
        RestoreAndCheckNothingIsServed(RestoreRequestOf(*resumed_, parts_)),
        HasStatus(absl::StatusCode::kDataLoss, AllOf(HasSubstr(path), HasSubstr("shard "))));
  }
}

TEST_F(DamagedCheckpoint, AMissingPartOfARunningServerIsNamed) {
  WEIR_ASSERT_OK(FileSystem::Real().RemoveTree(parts_[0].directory()));
  EXPECT_THAT(RestoreAndCheckNothingIsServed(RestoreRequestOf(*resumed_, parts_)),
              HasStatus(absl::StatusCode::kDataLoss, HasSubstr(parts_[0].directory())));
}

TEST_F(DamagedCheckpoint, APartWhoseServerIsAwayIsAskedForAgain) {
  WEIR_ASSERT_OK(FileSystem::Real().RemoveTree(parts_[1].directory()));
  v1::RestoreRequest request = RestoreRequestOf(*resumed_, parts_);
  request.set_fetch_addresses(1, "");
  EXPECT_THAT(RestoreAndCheckNothingIsServed(request),
              HasStatus(absl::StatusCode::kUnavailable, HasSubstr("server-1")));
}

TEST_F(DamagedCheckpoint, AShardThatNoPartHasIsNamed) {
  v1::RestoreRequest request = RestoreRequestOf(*resumed_, parts_);
  request.mutable_parts()->RemoveLast();
  EXPECT_THAT(RestoreAndCheckNothingIsServed(request),
              HasStatus(absl::StatusCode::kDataLoss, HasSubstr("no part")));
}

TEST_F(DamagedCheckpoint, AShardThatAPartListsAndDoesNotHoldIsNamed) {
  v1::RestoreRequest request = RestoreRequestOf(*resumed_, parts_);
  request.mutable_parts(0)->set_ids(0, "00000009-9");
  EXPECT_THAT(RestoreAndCheckNothingIsServed(request),
              HasStatus(absl::StatusCode::kDataLoss, HasSubstr("has 0 chunks")));
}

TEST_F(DamagedCheckpoint, OtherShardsThanThoseSavedAreRefused) {
  v1::RestoreRequest request = RestoreRequestOf(*resumed_, parts_);
  request.mutable_layout()->set_shard_bytes(4096);
  EXPECT_THAT(RestoreAndCheckNothingIsServed(request),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("4096")));
}

TEST_F(DamagedCheckpoint, AfterAFailureTheSameRestoreMayBeTriedAgain) {
  v1::RestoreRequest without = RestoreRequestOf(*resumed_, parts_);
  without.mutable_parts()->RemoveLast();
  EXPECT_FALSE(RestoreAndCheckNothingIsServed(without).ok());
  WEIR_EXPECT_OK(Restore(*resumed_, parts_));
  WEIR_EXPECT_OK(resumed_->Pull().status());
}

}  // namespace
}  // namespace weir
