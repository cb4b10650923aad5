// SPDX-License-Identifier: Apache-2.0
#include "server/term_record.h"

#include <gmock/gmock.h>

#include "tests/support/fake_file_system.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<TermRecord> Open(FileSystem& files) {
  auto record = TermRecord::Open(files, "/data");
  EXPECT_THAT(record.status(), IsOk());
  return *std::move(record);
}

TEST(TermRecord, RefusesATermBelowTheHighest) {
  FakeFileSystem files;
  const auto record = Open(files);
  WEIR_EXPECT_OK(record->Admit(3));
  WEIR_EXPECT_OK(record->Admit(3));
  WEIR_EXPECT_OK(record->Admit(5));
  EXPECT_THAT(record->Admit(4), HasStatus(absl::StatusCode::kAborted, HasSubstr("term 5")));
}

TEST(TermRecord, AdmittedTermSurvivesTheLossOfAllThatIsNotSynced) {
  FakeFileSystem files;
  WEIR_EXPECT_OK(Open(files)->Admit(5));
  files.Restart(FakeFileSystem::Loss::kDataAndNames);
  const auto record = Open(files);
  EXPECT_EQ(record->Admit(4).code(), absl::StatusCode::kAborted);
  WEIR_EXPECT_OK(record->Admit(5));
}

TEST(TermRecord, StopAtAnyMomentLeavesTheOldTermOrTheNewOne) {
  for (uint64_t operations = 0; operations < 5; ++operations) {
    for (const FakeFileSystem::Loss loss : FakeFileSystem::kAllLosses) {
      FakeFileSystem files;
      auto record = Open(files);
      WEIR_EXPECT_OK(record->Admit(5));
      files.StopAfter(operations);
      const bool admitted = record->Admit(6).ok();
      files.Restart(loss);
      record = Open(files);
      EXPECT_EQ(record->Admit(4).code(), absl::StatusCode::kAborted);
      if (admitted) {
        EXPECT_EQ(record->Admit(5).code(), absl::StatusCode::kAborted);
      }
    }
  }
}

TEST(TermRecord, TermThatCannotBeWrittenIsNotAdmitted) {
  FakeFileSystem files;
  const auto record = Open(files);
  files.FailNext("sync", absl::ResourceExhaustedError("no space"));
  EXPECT_EQ(record->Admit(1).code(), absl::StatusCode::kResourceExhausted);
  WEIR_EXPECT_OK(record->Admit(1));
}

TEST(TermRecord, DamagedFileIsDataLossAndNamesIt) {
  FakeFileSystem files;
  WEIR_EXPECT_OK(Open(files)->Admit(5));
  files.FlipBit("/data/TERM", 6);
  EXPECT_THAT(TermRecord::Open(files, "/data").status(),
              HasStatus(absl::StatusCode::kDataLoss, HasSubstr("/data/TERM")));
}

}  // namespace
}  // namespace weir
