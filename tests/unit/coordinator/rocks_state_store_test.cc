// SPDX-License-Identifier: Apache-2.0
#include "coordinator/rocks_state_store.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

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
