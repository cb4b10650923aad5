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

TEST(Console, OnATerminalProgressIsCutToItsColumnsBehindAWholeField) {
  FakeClock clock;
  std::ostringstream out;
  size_t columns = 3;
  {
    Console console(out, {.terminal = true, .columns = [&] { return columns; }, .clock = &clock});
    console.Progress("abcdef");
    columns = 9;
    console.Progress("ab 12  cd 34  ef 56");
    columns = 19;
    console.Progress("ab 12  cd 34  ef 56");
  }
  EXPECT_EQ(out.str(), "\r\033[Kabc\r\033[Kab 12\r\033[Kab 12  cd 34  ef 56\n");
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
