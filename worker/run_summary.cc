// SPDX-License-Identifier: Apache-2.0
#include "worker/run_summary.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "worker/step_json.h"

namespace weir {

std::string ToJson(const RunSummary& summary) {
  // JSON has no NaN: the library writes null.
  const nlohmann::ordered_json json = {
      {"name", summary.name},
      {"test_accuracy", summary.test_accuracy},
      {"test_loss", summary.test_loss},
      {"train_loss", summary.train_loss},
      {"steps", summary.steps},
      {"examples", summary.examples},
      {"samples_per_second", summary.samples_per_second},
      {"step_seconds", StepJson(summary.step_seconds)},
      {"regime", summary.regime},
      {"servers", summary.servers},
      {"workers", summary.workers},
      {"checkpoint", summary.checkpoint},
      {"wall_seconds", summary.wall_seconds},
      {"lost_steps", summary.lost_steps},
      {"late_pushes", summary.late_pushes},
      {"seed", summary.seed},
      {"stopped", summary.stopped},
  };
  return json.dump(2) + "\n";
}

absl::Status WriteSummary(const RunSummary& summary, const std::string& file) {
  const std::string aside = file + ".new";
  std::ofstream out(aside, std::ios::trunc);
  out << ToJson(summary);
  out.close();
  if (!out || std::rename(aside.c_str(), file.c_str()) != 0) {
    return absl::UnavailableError(absl::StrCat(file, ": cannot be written: ", strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace weir
