// SPDX-License-Identifier: Apache-2.0
#include "cli/table.h"

#include <gmock/gmock.h>

#include "cli/human.h"
#include "common/human_duration.h"

namespace weir {
namespace {

TEST(Table, ColumnsAreAsWideAsTheirWidestCellAndLinesHaveNoTrailingSpaces) {
  Table table({{"JOB"}, {"STEP", Table::Align::kRight}, {"NOTE"}});
  table.AddRow({"a-long-name", "7", ""});
  table.AddRow({"b", "1,000", "late"});
  EXPECT_EQ(table.ToString(),
            "JOB           STEP  NOTE\n"
            "a-long-name      7\n"
            "b            1,000  late\n");
}

TEST(Table, MissingCellsAreEmpty) {
  Table table({{"A"}, {"B"}});
  table.AddRow({"1"});
  EXPECT_EQ(table.ToString(), "A  B\n1\n");
}

TEST(Human, CountsAreGroupedByThousands) {
  EXPECT_EQ(HumanCount(0), "0");
  EXPECT_EQ(HumanCount(999), "999");
  EXPECT_EQ(HumanCount(1000), "1,000");
  EXPECT_EQ(HumanCount(1234567), "1,234,567");
}

TEST(Human, BytesTakeTheUnitThatFits) {
  EXPECT_EQ(HumanBytes(312), "312 B");
  EXPECT_EQ(HumanBytes(1536), "1.5 KiB");
  EXPECT_EQ(HumanBytes(uint64_t{3} << 30), "3.0 GiB");
}

TEST(Human, DurationsAreRoundedToSeconds) {
  EXPECT_EQ(HumanDuration(absl::Milliseconds(6600)), "0:07");
  EXPECT_EQ(HumanDuration(absl::Seconds(3723)), "1:02:03");
}

}  // namespace
}  // namespace weir
