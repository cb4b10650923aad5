// SPDX-License-Identifier: Apache-2.0
#include "cli/resolved_job.h"

#include <yaml-cpp/yaml.h>

#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "cli/child_process.h"
#include "cli/exit_code.h"
#include "common/status_macros.h"

namespace weir {
namespace {
constexpr absl::Duration kTimeout = absl::Minutes(1);

std::string RegimeText(const YAML::Node& regime) {
  if (regime.IsScalar()) return regime.as<std::string>();
  if (regime.IsMap() && regime.size() > 0) {
    const auto option = *regime.begin();
    return absl::StrCat(option.first.as<std::string>(), " ", option.second.as<std::string>());
  }
  return "";
}
}  // namespace

absl::StatusOr<ResolvedJob> ParseResolvedJob(const std::string& text) {
  try {
    const YAML::Node job = YAML::Load(text);
    ResolvedJob resolved;
    resolved.name = job["name"].as<std::string>();
    resolved.workers = job["workers"].as<int>();
    if (job["regime"]) resolved.regime = RegimeText(job["regime"]);
    if (const YAML::Node model = job["model"]; model && model["replica"]) {
      resolved.replica = model["replica"].as<std::string>();
    }
    if (job["replace"]) resolved.replace = job["replace"].as<bool>();
    resolved.text = text;
    return resolved;
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("weir-worker printed no job that can be read: ", error.what()));
  }
}

absl::StatusOr<ResolvedJob> ResolveJobFile(const ResolveOptions& options) {
  ChildOptions child{.program = options.worker_program,
                     .arguments = {"--job", options.job_file, "--print-job", "--log-level", "off"}};
  for (const std::string& override : options.overrides) {
    child.arguments.insert(child.arguments.end(), {"--set", override});
  }
  WEIR_ASSIGN_OR_RETURN(const auto worker, ChildProcess::Start(child));
  const auto ended = worker->WaitFor(*options.clock, kTimeout);
  const std::string text = absl::StrJoin(worker->ReadLines(), "\n") + "\n";
  if (!ended) {
    return absl::DeadlineExceededError(
        absl::StrCat(options.worker_program, " --print-job does not end"));
  }
  if (!ended->ok()) {
    // What is wrong is the job, not the program that looks at it.
    absl::string_view reason = absl::StripAsciiWhitespace(text);
    const std::string program = std::filesystem::path(options.worker_program).filename();
    absl::ConsumePrefix(&reason, program + ": ");
    if (ended->signal != 0) {
      return absl::InternalError(absl::StrCat(options.worker_program, " --print-job ended with ",
                                              ended->ToString(), ": ", reason));
    }
    return ended->code == static_cast<int>(RunExit::kData) ? absl::DataLossError(reason)
                                                           : absl::InvalidArgumentError(reason);
  }
  return ParseResolvedJob(text);
}

}  // namespace weir
