// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/manifest_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/manifest.h"
#include "checkpoint/preamble.h"
#include "tests/support/fake_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/checkpoint/sample_manifest.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::string_view kOld = "00000001-1";
constexpr absl::string_view kNew = "00000002-1";

v1::Manifest Sample(absl::string_view id) {
  return SampleManifest(std::string(id));
}

absl::Status Save(ManifestStore& store, absl::string_view id) {
  const v1::Manifest manifest = Sample(id);
  absl::Status status = store.Begin(manifest);
  if (status.ok()) status = store.Commit(manifest);
  return status;
}

TEST(ManifestStore, CommittedIsListedAndLoaded) {
  FakeFileSystem files;
  ManifestStore store(files, "/m");
  WEIR_ASSERT_OK(Save(store, kOld));
  WEIR_ASSERT_OK(Save(store, kNew));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto ids, store.List("job"));
  EXPECT_THAT(ids, ElementsAre(kNew, kOld));
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::Manifest latest, store.Latest("job"));
  EXPECT_EQ(latest.id(), kNew);
  EXPECT_EQ(latest.step(), 41);
  WEIR_ASSERT_OK_AND_ASSIGN(const auto jobs, store.Jobs());
  EXPECT_THAT(jobs, ElementsAre("job"));
}

TEST(ManifestStore, AnUnknownJobHasNoCheckpoints) {
  FakeFileSystem files;
  ManifestStore store(files, "/m");
  WEIR_ASSERT_OK_AND_ASSIGN(const auto ids, store.List("job"));
  EXPECT_THAT(ids, IsEmpty());
  EXPECT_THAT(store.Latest("job"), HasStatus(absl::StatusCode::kNotFound, HasSubstr("job")));
  EXPECT_THAT(store.Load("job", kOld), HasStatus(absl::StatusCode::kNotFound, HasSubstr(kOld)));
  EXPECT_THAT(store.Load("../job", kOld),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("../job")));
}

// Whatever is done and wherever it stops: afterwards the newest checkpoint is the old one or the
// new one, whole, and what is not committed is among the remains or was never announced.
TEST(ManifestStore, ACrashAnywhereInACommitGivesTheOldOrTheNew) {
  for (const FakeFileSystem::Loss loss : FakeFileSystem::kAllLosses) {
    bool committed = false;
    for (uint64_t stop = 0; !committed; ++stop) {
      SCOPED_TRACE(testing::Message() << "loss " << static_cast<int>(loss) << " stop " << stop);
      FakeFileSystem files;
      ManifestStore before(files, "/m");
      WEIR_ASSERT_OK(Save(before, kOld));
      files.StopAfter(stop);
      const absl::Status begun = before.Begin(Sample(kNew));
      committed = begun.ok() && before.Commit(Sample(kNew)).ok();
      const size_t removals = files.operations().size();
      files.Restart(loss);

      ManifestStore after(files, "/m");
      WEIR_ASSERT_OK_AND_ASSIGN(const ManifestStore::Remains remains, after.Sweep());
      WEIR_ASSERT_OK_AND_ASSIGN(const v1::Manifest latest, after.Latest("job"));
      EXPECT_TRUE(latest.id() == kOld || latest.id() == kNew);
      EXPECT_EQ(latest.parts_size(), 2);
      if (committed) {
        EXPECT_EQ(latest.id(), kNew);
      }
      if (latest.id() == kNew) {
        EXPECT_EQ(remains.size(), 0);
      }
      // Servers may have been asked for parts once Begin had returned.
      if (latest.id() == kOld && begun.ok()) {
        ASSERT_EQ(remains.size(), 1);
        EXPECT_EQ(remains[0].id(), kNew);
        EXPECT_EQ(remains[0].parts_size(), 2);
      }
      WEIR_ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, files.List("/m/job"));
      for (const std::string& name : names) EXPECT_THAT(name, Not(HasSubstr(".tmp")));
      WEIR_EXPECT_OK(after.Load("job", kOld).status());
      ASSERT_LT(removals, 1000u);
    }
  }
}

TEST(ManifestStore, ACrashAnywhereInADeleteLeavesTheCheckpointOrItsRemains) {
  for (const FakeFileSystem::Loss loss : FakeFileSystem::kAllLosses) {
    bool deleted = false;
    for (uint64_t stop = 0; !deleted; ++stop) {
      SCOPED_TRACE(testing::Message() << "loss " << static_cast<int>(loss) << " stop " << stop);
      FakeFileSystem files;
      ManifestStore before(files, "/m");
      WEIR_ASSERT_OK(Save(before, kOld));
      WEIR_ASSERT_OK(Save(before, kNew));
      files.StopAfter(stop);
      deleted = before.Delete("job", kOld).ok();
      files.Restart(loss);

      ManifestStore after(files, "/m");
      WEIR_ASSERT_OK_AND_ASSIGN(const ManifestStore::Remains remains, after.Sweep());
      const bool listed = after.Load("job", kOld).ok();
      EXPECT_NE(listed, remains.size() == 1);
      EXPECT_FALSE(deleted && listed);
      WEIR_EXPECT_OK(after.Load("job", kNew).status());
      for (const v1::Manifest& manifest : remains) {
        WEIR_ASSERT_OK(after.Forget(manifest.job(), manifest.id()));
      }
      WEIR_ASSERT_OK_AND_ASSIGN(const ManifestStore::Remains none, after.Sweep());
      EXPECT_EQ(none.size(), 0);
    }
  }
}

TEST(ManifestStore, EveryErrorOfACommitLeavesThePreviousCheckpoint) {
  for (const char* operation :
       {"write /m/job/00000002-1.manifest", "sync /m/job/00000002-1.manifest",
        "rename /m/job/00000002-1", "sync folder /m/job"}) {
    SCOPED_TRACE(operation);
    FakeFileSystem files;
    ManifestStore store(files, "/m");
    WEIR_ASSERT_OK(Save(store, kOld));
    WEIR_ASSERT_OK(store.Begin(Sample(kNew)));
    files.FailNext(operation, absl::ResourceExhaustedError("no space"));
    EXPECT_THAT(store.Commit(Sample(kNew)),
                HasStatus(absl::StatusCode::kResourceExhausted, HasSubstr("no space")));
    WEIR_ASSERT_OK(store.Abandon("job", kNew));
    WEIR_ASSERT_OK(store.Forget("job", kNew));
    files.Restart(FakeFileSystem::Loss::kDataAndNames);
    WEIR_ASSERT_OK_AND_ASSIGN(const v1::Manifest latest, store.Latest("job"));
    EXPECT_EQ(latest.id(), kOld);
  }
}

TEST(ManifestStore, WhatIsNotWholeIsNotCommitted) {
  FakeFileSystem files;
  ManifestStore store(files, "/m");
  v1::Manifest manifest = Sample(kNew);
  WEIR_ASSERT_OK(store.Begin(manifest));
  manifest.mutable_parts()->RemoveLast();
  EXPECT_THAT(store.Commit(manifest),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("shard 2")));
  EXPECT_THAT(store.Latest("job"), HasStatus(absl::StatusCode::kNotFound, HasSubstr("job")));
}

TEST(ManifestStore, WhatWasNotBegunIsNeitherCommittedNorAbandoned) {
  FakeFileSystem files;
  ManifestStore store(files, "/m");
  constexpr auto kCode = absl::StatusCode::kFailedPrecondition;
  EXPECT_THAT(store.Commit(Sample(kNew)), HasStatus(kCode, HasSubstr(kNew)));
  WEIR_ASSERT_OK(Save(store, kOld));
  EXPECT_THAT(store.Abandon("job", kOld), HasStatus(kCode, HasSubstr(kOld)));
  WEIR_EXPECT_OK(store.Load("job", kOld).status());
}

TEST(ManifestStore, TheLastIntactCheckpointIsNotDeleted) {
  FakeFileSystem files;
  ManifestStore store(files, "/m");
  WEIR_ASSERT_OK(Save(store, kOld));
  WEIR_ASSERT_OK(Save(store, kNew));
  files.FlipBit("/m/job/00000002-1.manifest", 400);
  EXPECT_THAT(store.Delete("job", kOld),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("last intact")));
  files.FlipBit("/m/job/00000002-1.manifest", 400);
  WEIR_EXPECT_OK(store.Delete("job", kOld).status());
}

TEST(ManifestStore, AutoTakesTheNextOlderWhereTheNewestIsDamaged) {
  FakeFileSystem files;
  ManifestStore store(files, "/m");
  WEIR_ASSERT_OK(Save(store, kOld));
  WEIR_ASSERT_OK(Save(store, kNew));
  files.Truncate("/m/job/00000002-1.manifest", 50);
  EXPECT_THAT(store.Latest("job"), HasStatus(absl::StatusCode::kDataLoss, HasSubstr(kNew)));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto latest, store.LatestIntact("job"));
  EXPECT_EQ(latest.manifest.id(), kOld);
  ASSERT_THAT(latest.damaged, SizeIs(1));
  EXPECT_THAT(latest.damaged[0], HasStatus(absl::StatusCode::kDataLoss, HasSubstr(kNew)));
}

TEST(ManifestStore, AutoGoesOnBelowACheckpointWhosePartsAreDamaged) {
  FakeFileSystem files;
  ManifestStore store(files, "/m");
  WEIR_ASSERT_OK(Save(store, kOld));
  WEIR_ASSERT_OK(Save(store, kNew));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto latest, store.LatestIntact("job", kNew));
  EXPECT_EQ(latest.manifest.id(), kOld);
  EXPECT_THAT(store.LatestIntact("job", kOld),
              HasStatus(absl::StatusCode::kNotFound, HasSubstr("no intact")));
}

TEST(ManifestStore, ANewerFormatIsNoDamageToAuto) {
  FakeFileSystem files;
  ManifestStore store(files, "/m");
  WEIR_ASSERT_OK(Save(store, kOld));
  std::string bytes = EncodeManifest(Sample(kNew));
  bytes.replace(0, kPreambleBytes, EncodePreamble("WEIRMANI", 2));
  WEIR_ASSERT_OK(files.WriteDurably("/m/job/00000002-1.manifest", bytes));
  EXPECT_THAT(store.LatestIntact("job"),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("newer")));
}

TEST(ManifestStore, AManifestUnderAnotherNameIsDamage) {
  FakeFileSystem files;
  ManifestStore store(files, "/m");
  WEIR_ASSERT_OK(Save(store, kOld));
  WEIR_ASSERT_OK(files.Rename("/m/job/00000001-1.manifest", "/m/job/00000002-1.manifest"));
  EXPECT_THAT(store.Latest("job"), HasStatus(absl::StatusCode::kDataLoss, HasSubstr(kOld)));
}

TEST(ManifestStore, IdsAreNewerThanAllBeforeAndNeverComeTwice) {
  FakeFileSystem files;
  ManifestStore store(files, "/m");
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string first, store.NextId("job", 1));
  EXPECT_EQ(first, "00000001-1");
  WEIR_ASSERT_OK(Save(store, "00000041-1"));
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string second, store.NextId("job", 1));
  EXPECT_EQ(second, "00000042-1");
  WEIR_ASSERT_OK(store.Begin(Sample(second)));
  WEIR_ASSERT_OK(store.Abandon("job", second));
  WEIR_ASSERT_OK(store.Forget("job", second));
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string third, store.NextId("job", 1));
  EXPECT_EQ(third, "00000043-1");
  ManifestStore next_life(files, "/m");
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string fourth, next_life.NextId("job", 2));
  EXPECT_EQ(fourth, "00000042-2");
  EXPECT_TRUE(IsOlderCheckpoint(second, fourth));
}

}  // namespace
}  // namespace weir
