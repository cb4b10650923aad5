// SPDX-License-Identifier: Apache-2.0
#include "cli/loss_curve.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cli/child_process.h"
#include "cli/text_file.h"
#include "common/status_macros.h"

namespace weir {
namespace {

using nlohmann::json;

constexpr absl::Duration kDrawTimeout = absl::Seconds(60);

std::string NumberOrNan(const json& point, const char* key) {
  const auto value = point.find(key);
  return value != point.end() && value->is_number() ? absl::StrCat(value->get<double>()) : "nan";
}

using Points = std::vector<std::pair<double, std::string>>;  // epoch, line

std::string Sorted(Points points) {
  // Several workers write in turn.
  std::stable_sort(points.begin(), points.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string text;
  for (const auto& point : points) absl::StrAppend(&text, point.second, "\n");
  return text;
}

// In gnuplot's single-quoted strings only the quote itself is special.
std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "''"}}), "'");
}

std::string Script(const std::string& points, const std::string& picture,
                   const std::string& title) {
  return absl::StrCat("set terminal pngcairo size 960,540 font 'DejaVu Sans,11'\n", "set output ",
                      Quoted(picture), "\n", "set title ", Quoted(title), " noenhanced\n",
                      "set xlabel 'epoch'\nset ylabel 'loss'\nset y2label 'accuracy'\n"
                      "set yrange [*<0:*]\nset y2range [0:1]\nset ytics nomirror\nset y2tics 0.1\n"
                      "set grid xtics y2tics\nset key outside top center horizontal\n",
                      "plot ", Quoted(points),
                      " index 0 using 1:2 with lines lw 1.5 lc rgb '#7f7f7f' ",
                      "title 'training loss', ", Quoted(points),
                      " index 0 using 1:3 axes x1y2 with lines lw 1.5 lc rgb '#1f77b4' ",
                      "title 'training accuracy', ", Quoted(points),
                      " index 1 using 1:2 axes x1y2 with points pt 7 ps 1.6 lc rgb '#d62728' ",
                      "title 'test accuracy'\n");
}

}  // namespace

std::string CurvePoints(const std::string& metrics_jsonl) {
  Points training;
  Points tests;
  for (absl::string_view line : absl::StrSplit(metrics_jsonl, '\n')) {
    const json point = json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
    const std::string epoch = point.is_object() ? NumberOrNan(point, "epoch") : "nan";
    if (epoch == "nan") continue;
    const double x = point["epoch"].get<double>();
    if (point.contains("loss")) {
      training.emplace_back(x, absl::StrCat(epoch, " ", NumberOrNan(point, "loss"), " ",
                                            NumberOrNan(point, "accuracy")));
    }
    if (point.contains("test_accuracy")) {
      tests.emplace_back(x, absl::StrCat(epoch, " ", NumberOrNan(point, "test_accuracy")));
    }
  }
  return absl::StrCat(Sorted(std::move(training)), "\n\n", Sorted(std::move(tests)));
}

absl::StatusOr<std::string> DrawLossCurve(const std::string& folder, const CurveOptions& options) {
  WEIR_ASSIGN_OR_RETURN(const std::string metrics, ReadTextFile(folder + "/metrics.jsonl"));
  const std::string points = CurvePoints(metrics);
  if (points.front() == '\n') return absl::NotFoundError("no loss in " + folder + "/metrics.jsonl");
  const std::string data = folder + "/loss.dat";
  const std::string script = folder + "/loss.gnuplot";
  const std::string picture = folder + "/loss.png";
  WEIR_RETURN_IF_ERROR(WriteTextFile(data, points));
  WEIR_RETURN_IF_ERROR(WriteTextFile(script, Script(data, picture, options.title)));
  WEIR_ASSIGN_OR_RETURN(
      const auto gnuplot,
      ChildProcess::Start(
          {.program = "gnuplot", .arguments = {script}, .search_path = options.search_path}));
  const auto ended = gnuplot->WaitFor(*options.clock, kDrawTimeout);
  if (ended && ended->ok()) return picture;
  return absl::InternalError(
      absl::StrCat("gnuplot ", ended ? "ended with " + ended->ToString() : "takes too long", ": ",
                   absl::StrJoin(gnuplot->ReadLines(), " ")));
}

}  // namespace weir
