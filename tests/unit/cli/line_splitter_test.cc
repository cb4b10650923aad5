// SPDX-License-Identifier: Apache-2.0
#include "cli/line_splitter.h"

#include <gmock/gmock.h>

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LineSplitter, LinesMayComeInPieces) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.Feed("on"), IsEmpty());
  EXPECT_THAT(splitter.Feed("e\ntwo\r\nth"), ElementsAre("one", "two"));
  EXPECT_THAT(splitter.Flush(), ElementsAre("th"));
  EXPECT_THAT(splitter.Flush(), IsEmpty());
}

TEST(LineSplitter, EmptyLinesAreLines) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.Feed("\n\na\n"), ElementsAre("", "", "a"));
}

TEST(LineSplitter, ALineWithoutEndIsCut) {
  LineSplitter splitter;
  const std::vector<std::string> lines =
      splitter.Feed(std::string(LineSplitter::kMaxLine + 1, 'x'));
  ASSERT_EQ(lines.size(), 1);
  EXPECT_EQ(lines[0].size(), LineSplitter::kMaxLine);
  EXPECT_THAT(splitter.Flush(), ElementsAre("x"));
}

}  // namespace
}  // namespace weir
