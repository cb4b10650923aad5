// SPDX-License-Identifier: Apache-2.0
#include "cli/console.h"

#include <gmock/gmock.h>

#include <sstream>

#include "tests/support/manual_executor.h"

namespace weir {
namespace {

TEST(Console, ALineHasTheNameOfWhoSaidIt) {
  FakeClock clock;
  std::ostringstream out;
  Console(out, {.clock = &clock}).Line("worker-1", "hello");
  EXPECT_EQ(out.str(), "[worker-1] hello\n");
}

TEST(Console, OnATerminalLinesScrollAboveTheProgress) {
  FakeClock clock;
  std::ostringstream out;
  {
    Console console(out, {.terminal = true, .clock = &clock});
    console.Progress("half");
    console.Line("event");
    console.Progress("done");
  }
  EXPECT_EQ(out.str(),
            "\r\033[Khalf"
            "\r\033[Kevent\nhalf"
            "\r\033[Kdone\n");
}

TEST(Console, OnATerminalProgressIsCutToItsColumns) {
  FakeClock clock;
  std::ostringstream out;
  Console(out, {.terminal = true, .columns = 3, .clock = &clock}).Progress("abcdef");
  EXPECT_EQ(out.str(), "\r\033[Kabc\n");
}

TEST(Console, ElsewhereProgressIsALineNowAndThen) {
  FakeClock clock;
  std::ostringstream out;
  Console console(out, {.progress_interval = absl::Seconds(10), .clock = &clock});
  console.Progress("first");
  clock.SetNow(clock.Now() + absl::Seconds(9));
  console.Progress("too soon");
  clock.SetNow(clock.Now() + absl::Seconds(1));
  console.Progress("second");
  EXPECT_EQ(out.str(), "first\nsecond\n");
}

}  // namespace
}  // namespace weir
