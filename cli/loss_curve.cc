// SPDX-License-Identifier: Apache-2.0
#include "cli/loss_curve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "cli/child_process.h"
#include "cli/text_file.h"
#include "common/status_macros.h"

namespace weir {
namespace {

using nlohmann::json;

constexpr absl::Duration kDrawTimeout = absl::Seconds(60);

using Row = std::vector<double>;  // epoch, then values; NaN: not there

double NumberOrNan(const json& point, const char* key) {
  const auto value = point.find(key);
  return value != point.end() && value->is_number() ? value->get<double>()
                                                    : std::numeric_limits<double>::quiet_NaN();
}

void SortByEpoch(std::vector<Row>& rows) {
  // Several workers write in turn.
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.front() < b.front(); });
}

// Of the numbers that are there.
double MeanOf(absl::Span<const Row> rows, size_t column) {
  double sum = 0;
  int count = 0;
  for (const Row& row : rows) {
    if (std::isnan(row[column])) continue;
    sum += row[column];
    ++count;
  }
  return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
}

// Every `workers` rows are one, their mean: else the line goes up and down between them.
std::vector<Row> MeansOver(size_t workers, const std::vector<Row>& rows) {
  std::vector<Row> means;
  for (size_t first = 0; first < rows.size(); first += workers) {
    const auto block = absl::MakeConstSpan(rows).subspan(first, workers);
    Row mean;
    for (size_t column = 0; column < rows[first].size(); ++column) {
      mean.push_back(MeanOf(block, column));
    }
    means.push_back(std::move(mean));
  }
  return means;
}

std::string Lines(const std::vector<Row>& rows) {
  std::string text;
  for (const Row& row : rows) absl::StrAppend(&text, absl::StrJoin(row, " "), "\n");
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
  std::vector<Row> training;
  std::vector<Row> tests;
  std::set<double> workers;
  for (absl::string_view line : absl::StrSplit(metrics_jsonl, '\n')) {
    const json point = json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
    if (!point.is_object()) continue;
    const double epoch = NumberOrNan(point, "epoch");
    if (std::isnan(epoch)) continue;
    if (point.contains("loss")) {
      training.push_back({epoch, NumberOrNan(point, "loss"), NumberOrNan(point, "accuracy")});
      workers.insert(point.value("worker", 0.0));
    }
    if (point.contains("test_accuracy")) {
      tests.push_back({epoch, NumberOrNan(point, "test_accuracy")});
    }
  }
  SortByEpoch(training);
  SortByEpoch(tests);
  return absl::StrCat(Lines(MeansOver(std::max<size_t>(1, workers.size()), training)), "\n\n",
                      Lines(tests));
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
