// SPDX-License-Identifier: Apache-2.0
#include "tests/support/sanitizer_reports.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_folder.h"

namespace weir {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// As GCC 12 and clang 14 print them.
constexpr char kRace[] = "WARNING: ThreadSanitizer: data race (pid=7)";
constexpr char kOverflow[] = "==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x6";
constexpr char kLeak[] = "==7==ERROR: LeakSanitizer: detected memory leaks";
constexpr char kUndefined[] = "server/chunk.cc:3:4: runtime error: signed integer overflow: 1 + 2";

TEST(SanitizerReports, KnowsTheFirstLineOfEachSanitizersReport) {
  for (const char* line : {kRace, kOverflow, kLeak, kUndefined}) {
    EXPECT_TRUE(IsSanitizerReport(line)) << line;
  }
  EXPECT_FALSE(IsSanitizerReport("[info] job=a state=RUNNING"));
  EXPECT_FALSE(IsSanitizerReport("    #0 main server/chunk.cc:3"));
}

TEST(SanitizerReports, AreFoundInTheLogsOfAFolderAndItsSubfolders) {
  TempFolder folder;
  const std::string logs = folder.path() + "/logs";
  std::filesystem::create_directories(logs);
  EXPECT_THAT(SanitizerReports(folder.path()), IsEmpty());
  std::ofstream(folder.path() + "/supervisor.log") << kUndefined << "\n";
  std::ofstream(logs + "/server-0.log") << "ready\n" << kRace << "\n    #0 main\n";
  std::ofstream(logs + "/server-1.log") << "ready\n";
  EXPECT_THAT(SanitizerReports(folder.path()),
              UnorderedElementsAre(folder.path() + "/supervisor.log: " + kUndefined,
                                   logs + "/server-0.log: " + kRace));
}

}  // namespace
}  // namespace weir
