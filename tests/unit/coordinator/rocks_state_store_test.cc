// SPDX-License-Identifier: Apache-2.0
#include "coordinator/rocks_state_store.h"

#include <gmock/gmock.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <atomic>
#include <filesystem>
#include <memory>

#include "absl/strings/match.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

struct LogSyncs {
  std::atomic<int> count{0};
  std::atomic<bool> fail{false};
};

class WatchedLog : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  WatchedLog(std::unique_ptr<rocksdb::FSWritableFile> log, LogSyncs& syncs)
      : FSWritableFileOwnerWrapper(std::move(log)), syncs_(syncs) {}

  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                         rocksdb::IODebugContext* debug) override {
    if (syncs_.fail) return rocksdb::IOStatus::IOError("the disk does not sync");
    const rocksdb::IOStatus synced = FSWritableFileOwnerWrapper::Sync(options, debug);
    if (synced.ok()) ++syncs_.count;
    return synced;
  }

 private:
  LogSyncs& syncs_;
};

// The system's files, where syncs of the write-ahead log are counted, or fail.
class LogWatchingFiles : public rocksdb::FileSystemWrapper {
 public:
  explicit LogWatchingFiles(LogSyncs& syncs)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), syncs_(syncs) {}
  const char* Name() const override { return "LogWatchingFiles"; }

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus opened = target()->NewWritableFile(path, options, file, debug);
    if (opened.ok() && absl::EndsWith(path, ".log")) {
      *file = std::make_unique<WatchedLog>(std::move(*file), syncs_);
    }
    return opened;
  }

 private:
  LogSyncs& syncs_;
};

class RocksStateStoreTest : public ::testing::Test {
 protected:
  RocksStateStoreTest() { std::filesystem::remove_all(folder_); }
  ~RocksStateStoreTest() override { std::filesystem::remove_all(folder_); }

  const TempFolder temp_;  // of this process: the same test may run beside it
  const std::string folder_ = temp_.path();
};

TEST_F(RocksStateStoreTest, KeepsOverReopeningWhatWasWrittenAndNotWhatWasErased) {
  {
    WEIR_ASSERT_OK_AND_ASSIGN(const auto store, RocksStateStore::Open(folder_));
    WEIR_ASSERT_OK(store->Write({{"a", "1"}, {"b", std::string("\0x", 2)}, {"c", "3"}}));
    WEIR_ASSERT_OK(store->Write({{"a", "2"}, {"c", absl::nullopt}}));
  }
  WEIR_ASSERT_OK_AND_ASSIGN(const auto store, RocksStateStore::Open(folder_));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto all, store->Load());
  EXPECT_THAT(all, ElementsAre(Pair("a", "2"), Pair("b", std::string("\0x", 2))));
}

TEST_F(RocksStateStoreTest, WhatIsWrittenIsSyncedBeforeWriteReturns) {
  LogSyncs syncs;
  const auto env = rocksdb::NewCompositeEnv(std::make_shared<LogWatchingFiles>(syncs));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto store, RocksStateStore::Open(folder_, env.get()));
  for (const char* key : {"a", "b", "c"}) {
    const int before = syncs.count;
    WEIR_ASSERT_OK(store->Write({{key, "1"}}));
    EXPECT_EQ(syncs.count, before + 1) << key;
  }
  syncs.fail = true;
  EXPECT_THAT(store->Write({{"d", "1"}}),
              HasStatus(absl::StatusCode::kUnavailable,
                        AllOf(HasSubstr(folder_), HasSubstr("the disk does not sync"))));
}

TEST_F(RocksStateStoreTest, SecondCoordinatorIsToldThatTheFolderIsInUse) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto store, RocksStateStore::Open(folder_));
  EXPECT_THAT(RocksStateStore::Open(folder_),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("another coordinator")));
}

TEST_F(RocksStateStoreTest, FolderThatCannotBeMadeIsNamed) {
  EXPECT_THAT(RocksStateStore::Open("/proc/weir/state"),
              HasStatus(absl::StatusCode::kUnavailable, HasSubstr("/proc/weir/state")));
}

}  // namespace
}  // namespace weir
