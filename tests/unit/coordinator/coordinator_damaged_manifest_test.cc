// SPDX-License-Identifier: Apache-2.0
// Manifests that the coordinator cannot read when it starts again.
#include "checkpoint/preamble.h"
#include "tests/unit/coordinator/coordinator_fixture.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DamagedManifest : public CoordinatorTest {
 protected:
  static std::string PathOf(const std::string& id) {
    return absl::StrCat("/coordinator/checkpoints/job/", id, ".manifest");
  }
  void Damage(const std::string& id) { files_.FlipBit(PathOf(id), 8 * 40); }
  void MakeNewer(const std::string& id) {
    const std::string preamble = EncodePreamble("WEIRMANI", kCheckpointFormat + 1);
    const absl::StatusOr<std::string> bytes = files_.ReadFile(PathOf(id), 1 << 20);
    ASSERT_THAT(bytes, IsOk());
    WEIR_ASSERT_OK(files_.WriteFile(PathOf(id), preamble + bytes->substr(preamble.size())));
  }
  // With one of its servers restarted too.
  void StartAgain() {
    Boot();
    WEIR_ASSERT_OK(AddServer("server-0", 950));
    WEIR_ASSERT_OK(AddServer("server-1", 901));
  }
};

TEST_F(DamagedManifest, OfTheOnlyCheckpointFailsTheJobThatGoesBack) {
  RunJob(SyncJob(1), {1});
  const std::string id = SaveAt(10, 100);
  Damage(id);
  StartAgain();
  EXPECT_EQ(View().state(), v1::JOB_STATE_FAILED);
  EXPECT_THAT(View().message(), AllOf(HasSubstr("no intact checkpoint"), HasSubstr(id)));
}

TEST_F(DamagedManifest, GivesWayToTheOneBefore) {
  RunJob(SyncJob(1), {1});
  const std::string older = SaveAt(10, 100);
  Damage(SaveAt(20, 200));
  StartAgain();
  EXPECT_EQ(View().state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(View().resume().checkpoint_id(), older);
}

TEST_F(DamagedManifest, OfANewerFormatEndsTheSearch) {
  RunJob(SyncJob(1), {1});
  SaveAt(10, 100);
  MakeNewer(SaveAt(20, 200));
  StartAgain();
  EXPECT_EQ(View().state(), v1::JOB_STATE_FAILED);
  EXPECT_THAT(View().message(), HasSubstr("newer"));
}

TEST_F(DamagedManifest, OfAnEarlierRunIsNoneOfThisOne) {
  RunJob(SyncJob(1), {1});
  const std::string id = SaveAt(10, 100);
  WEIR_ASSERT_OK(Leave(1, true));
  v1::JobSpec replacing = SyncJob(1);
  replacing.set_replace(true);
  WEIR_ASSERT_OK(Join(2, replacing));
  WEIR_ASSERT_OK(Declare(2, OneVariable()));
  WEIR_ASSERT_OK(ReportInitialised(2));
  Damage(id);
  StartAgain();
  EXPECT_EQ(View().state(), v1::JOB_STATE_INITIALISING);
}

TEST_F(DamagedManifest, OfTheCheckpointThatARunHasGoneOnFromFailsIt) {
  RunJob(SyncJob(1), {1});
  const std::string id = SaveAt(10, 100);
  SaveAt(20, 200);
  WEIR_ASSERT_OK(Leave(1, true));
  v1::JobSpec resumed = SyncJob(1);
  resumed.set_resume(id);
  WEIR_ASSERT_OK(Join(2, resumed));
  WEIR_ASSERT_OK(Declare(2, OneVariable()));
  ASSERT_EQ(View().state(), v1::JOB_STATE_RUNNING);
  Damage(id);
  StartAgain();
  EXPECT_EQ(View().state(), v1::JOB_STATE_FAILED);
  EXPECT_THAT(View().message(), HasSubstr(id));
}

TEST_F(DamagedManifest, AutoDoesNotBeginAnewWhereAllAreDamaged) {
  RunJob(SyncJob(1), {1});
  const std::string id = SaveAt(10, 100);
  WEIR_ASSERT_OK(Leave(1, true));
  Damage(id);
  StartAgain();
  v1::JobSpec resumed = SyncJob(1);
  resumed.set_resume("auto");
  WEIR_ASSERT_OK(Join(2, resumed));
  EXPECT_THAT(Declare(2, OneVariable()), HasStatus(absl::StatusCode::kDataLoss, HasSubstr(id)));
}

}  // namespace
}  // namespace weir
