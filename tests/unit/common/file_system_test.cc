// SPDX-License-Identifier: Apache-2.0
#include "common/file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One suite over the machine's files and the fake.
class FileSystemTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) {
      folder_ = real_folder_.path();
      ASSERT_NE(folder_, "");
    } else {
      folder_ = "/top";
      WEIR_ASSERT_OK(fake_.CreateFolder(folder_));
    }
  }
  void TearDown() override { WEIR_EXPECT_OK(files().RemoveTree(folder_)); }

  FileSystem& files() { return GetParam() ? FileSystem::Real() : fake_; }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

 private:
  TempFolder real_folder_;
  FakeFileSystem fake_;
  std::string folder_;
};

TEST_P(FileSystemTest, WhatIsWrittenIsReadBack) {
  const std::string contents(3'000'000, 'x');
  WEIR_ASSERT_OK(files().WriteDurably(Path("a"), contents));
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string back, files().ReadFile(Path("a"), 1 << 30));
  EXPECT_EQ(back, contents);
  WEIR_ASSERT_OK_AND_ASSIGN(const uint64_t size, files().FileSize(Path("a")));
  EXPECT_EQ(size, contents.size());
}

TEST_P(FileSystemTest, WritingAgainReplacesTheContents) {
  WEIR_ASSERT_OK(files().WriteFile(Path("a"), "long contents"));
  WEIR_ASSERT_OK(files().WriteFile(Path("a"), "short"));
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string back, files().ReadFile(Path("a"), 100));
  EXPECT_EQ(back, "short");
}

TEST_P(FileSystemTest, FoldersComeWithTheirParentsAndCanComeTwice) {
  WEIR_ASSERT_OK(files().CreateFolder(Path("b/c/d")));
  WEIR_ASSERT_OK(files().CreateFolder(Path("b/c/d")));
  WEIR_ASSERT_OK(files().WriteFile(Path("b/c/d/e"), ""));
  EXPECT_TRUE(files().Exists(Path("b/c/d/e")));
}

TEST_P(FileSystemTest, AFileInTheWayOfAFolderIsNamed) {
  WEIR_ASSERT_OK(files().WriteFile(Path("b"), ""));
  EXPECT_FALSE(files().CreateFolder(Path("b")).ok());
}

TEST_P(FileSystemTest, ListsInOrderOfNames) {
  for (const char* name : {"z", "a", "m"}) WEIR_ASSERT_OK(files().WriteFile(Path(name), ""));
  WEIR_ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, files().List(Path("")));
  EXPECT_THAT(names, ElementsAre("a", "m", "z"));
}

TEST_P(FileSystemTest, RenameReplacesTheTarget) {
  WEIR_ASSERT_OK(files().WriteFile(Path("new"), "new"));
  WEIR_ASSERT_OK(files().WriteFile(Path("old"), "old"));
  WEIR_ASSERT_OK(files().Rename(Path("new"), Path("old")));
  EXPECT_FALSE(files().Exists(Path("new")));
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string back, files().ReadFile(Path("old"), 100));
  EXPECT_EQ(back, "new");
}

TEST_P(FileSystemTest, RemovingATreeTakesAllOfItAndNothingIsFine) {
  WEIR_ASSERT_OK(files().CreateFolder(Path("b/c")));
  WEIR_ASSERT_OK(files().WriteFile(Path("b/c/e"), "x"));
  WEIR_ASSERT_OK(files().RemoveTree(Path("b")));
  EXPECT_FALSE(files().Exists(Path("b")));
  WEIR_EXPECT_OK(files().RemoveTree(Path("b")));
}

TEST_P(FileSystemTest, MissingFilesAreNotFoundAndNamed) {
  const auto missing = HasStatus(absl::StatusCode::kNotFound, HasSubstr("absent"));
  EXPECT_THAT(files().ReadFile(Path("absent"), 100), missing);
  EXPECT_THAT(files().SyncFile(Path("absent")), missing);
  EXPECT_THAT(files().RemoveFile(Path("absent")), missing);
  EXPECT_THAT(files().Rename(Path("absent"), Path("b")), missing);
  EXPECT_THAT(files().List(Path("absent")), missing);
  EXPECT_THAT(files().WriteFile(Path("absent/a"), "x"), missing);
}

TEST_P(FileSystemTest, AFileLargerThanExpectedIsRefusedBeforeItIsRead) {
  WEIR_ASSERT_OK(files().WriteFile(Path("a"), "12345"));
  EXPECT_THAT(files().ReadFile(Path("a"), 4),
              HasStatus(absl::StatusCode::kResourceExhausted, HasSubstr("5 bytes")));
}

INSTANTIATE_TEST_SUITE_P(All, FileSystemTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Real" : "Fake"; });

TEST(FakeFileSystem, ACrashDropsWhatWasNotSynced) {
  FakeFileSystem files;
  WEIR_ASSERT_OK(files.CreateFolder("/d"));
  WEIR_ASSERT_OK(files.WriteDurably("/d/kept", "kept"));
  WEIR_ASSERT_OK(files.WriteFile("/d/kept", "overwritten"));
  WEIR_ASSERT_OK(files.WriteFile("/d/lost", "lost"));
  files.Restart(FakeFileSystem::Loss::kDataAndNames);
  EXPECT_FALSE(files.Exists("/d/lost"));
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string back, files.ReadFile("/d/kept", 100));
  EXPECT_EQ(back, "kept");
}

TEST(FakeFileSystem, ARenameIsDurableOnlyWithItsFolder) {
  FakeFileSystem files;
  WEIR_ASSERT_OK(files.CreateFolder("/d"));
  WEIR_ASSERT_OK(files.WriteDurably("/d/a", "a"));
  WEIR_ASSERT_OK(files.Rename("/d/a", "/d/b"));
  files.Restart(FakeFileSystem::Loss::kNames);
  EXPECT_TRUE(files.Exists("/d/a"));
  EXPECT_FALSE(files.Exists("/d/b"));
}

TEST(FakeFileSystem, AFullDiskLeavesHalfOfAFile) {
  FakeFileSystem files;
  WEIR_ASSERT_OK(files.CreateFolder("/d"));
  files.FailNext("write /d/a", absl::ResourceExhaustedError("full"));
  EXPECT_FALSE(files.WriteFile("/d/a", "1234").ok());
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string back, files.ReadFile("/d/a", 100));
  EXPECT_EQ(back, "12");
}

}  // namespace
}  // namespace weir
