// SPDX-License-Identifier: Apache-2.0
// The picture that gnuplot draws.
#include "cli/loss_curve.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "cli/text_file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace weir {
namespace {

std::string Drawn(const std::string& evaluations) {
  const TempFolder folder;
  const std::string intervals =
      "{\"epoch\": 0.5, \"loss\": 2, \"accuracy\": 0.2}\n"
      "{\"epoch\": 2, \"loss\": 1, \"accuracy\": 0.7}\n";
  EXPECT_THAT(WriteTextFile(folder / "metrics.jsonl", intervals + evaluations), IsOk());
  const absl::StatusOr<std::string> picture = DrawLossCurve(
      folder.path(),
      {.title = "mnist", .search_path = "/usr/local/bin:/usr/bin", .clock = &Clock::Real()});
  EXPECT_THAT(picture, IsOk());
  if (!picture.ok()) return "";
  const absl::StatusOr<std::string> bytes = ReadTextFile(*picture);
  EXPECT_THAT(bytes, IsOk());
  return bytes.ok() ? *bytes : "";
}

TEST(LossCurve, EvaluationsAtIntervalsAreDrawnBesideTheFinalOne) {
  const std::string last = "{\"epoch\": 2, \"test_accuracy\": 0.75}\n";
  if (!std::filesystem::exists("/usr/bin/gnuplot") &&
      !std::filesystem::exists("/usr/local/bin/gnuplot")) {
    GTEST_SKIP() << "gnuplot is not installed";
  }
  const std::string without = Drawn("");
  ASSERT_NE(without, "");
  EXPECT_NE(without, Drawn(last));
  EXPECT_NE(Drawn(last), Drawn("{\"epoch\": 1, \"test_accuracy\": 0.5}\n" + last));
}

}  // namespace
}  // namespace weir
