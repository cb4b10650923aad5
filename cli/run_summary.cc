// SPDX-License-Identifier: Apache-2.0
#include "cli/run_summary.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/human.h"
#include "common/human_duration.h"
#include "common/status_macros.h"

namespace weir {
namespace {

using nlohmann::json;

absl::StatusOr<json> ParseObject(const std::string& text) {
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) {
    return absl::InvalidArgumentError("the summary of the run is no JSON object");
  }
  return value;
}

double Number(const json& summary, const char* key) {
  const auto value = summary.find(key);
  return value != summary.end() && value->is_number() ? value->get<double>() : 0;
}

std::string Text(const json& summary, const char* key) {
  const auto value = summary.find(key);
  return value != summary.end() && value->is_string() ? value->get<std::string>() : "";
}

bool Has(const json& summary, const char* key) {
  const auto value = summary.find(key);
  return value != summary.end() && !value->is_null();
}

// "", ", 1 worker replaced", ...
std::string Incidents(const json& summary) {
  std::vector<std::string> parts;
  const auto add = [&](const char* key, const char* noun, const char* what) {
    const auto count = static_cast<uint64_t>(Number(summary, key));
    if (count > 0) parts.push_back(absl::StrCat(HumanCount(count, noun), " ", what));
  };
  add("restarted_daemons", "daemon", "restarted");
  add("replaced_workers", "worker", "replaced");
  add("lost_steps", "step", "undone by going back");
  add("late_pushes", "late contribution", "dropped");
  return absl::StrJoin(parts, ", ");
}

// "12.5 ms: input 0 %, pull 4 %, ..."; "": no step was timed.
std::string StepTimes(const json& summary) {
  constexpr const char* kParts[] = {"input", "pull", "compute", "push", "wait"};
  const auto seconds = summary.find("step_seconds");
  if (seconds == summary.end() || !seconds->is_object()) return "";
  double total = 0;
  for (const char* part : kParts) total += Number(*seconds, part);
  if (total <= 0) return "";
  std::vector<std::string> shares;
  for (const char* part : kParts) {
    shares.push_back(absl::StrFormat("%s %.0f %%", part, 100 * Number(*seconds, part) / total));
  }
  return absl::StrFormat("%.1f ms: %s", 1000 * total, absl::StrJoin(shares, ", "));
}

}  // namespace

absl::StatusOr<std::string> SummaryJson(const std::string& worker_summary, const RunFacts& facts) {
  json summary = json::object();
  if (!worker_summary.empty()) {
    WEIR_ASSIGN_OR_RETURN(summary, ParseObject(worker_summary));
  }
  summary["job"] = facts.job;
  summary["regime"] = facts.regime;
  if (facts.servers > 0) summary["servers"] = facts.servers;
  summary["workers"] = facts.workers;
  if (facts.steps > 0) summary["steps"] = facts.steps;
  if (facts.examples > 0) summary["examples"] = facts.examples;
  summary["restarted_daemons"] = facts.restarted_daemons;
  summary["replaced_workers"] = facts.replaced_workers;
  if (!facts.checkpoint.empty()) summary["checkpoint"] = facts.checkpoint;
  if (!facts.list_checkpoints.empty()) summary["list_checkpoints"] = facts.list_checkpoints;
  if (!facts.manifest.empty()) summary["checkpoint_manifest"] = facts.manifest;
  summary["wall_seconds"] = absl::ToDoubleSeconds(facts.wall);
  summary["folder"] = facts.folder;
  if (!facts.loss_curve.empty()) summary["loss_curve"] = facts.loss_curve;
  if (!facts.failure.empty()) summary["failure"] = facts.failure;
  return summary.dump(2) + "\n";
}

absl::StatusOr<std::string> SummaryText(const std::string& summary_json) {
  WEIR_ASSIGN_OR_RETURN(const json summary, ParseObject(summary_json));
  std::string text;
  const auto line = [&](const std::string& label, const std::string& value) {
    if (!value.empty()) absl::StrAppendFormat(&text, "  %-15s%s\n", label, value);
  };
  const auto counted = [&](const char* key, const char* noun) {
    return HumanCount(static_cast<uint64_t>(Number(summary, key)), noun);
  };
  absl::StrAppend(&text, Text(summary, "job"), ": ", Text(summary, "regime"), ", ",
                  counted("workers", "worker"), ", ", counted("servers", "server"), ", ",
                  HumanDuration(absl::Seconds(Number(summary, "wall_seconds"))), "\n");
  if (Has(summary, "test_accuracy")) {
    line("test accuracy", absl::StrFormat("%.4f", Number(summary, "test_accuracy")));
  }
  if (Has(summary, "train_loss")) {
    line("train loss", absl::StrFormat("%.4f", Number(summary, "train_loss")));
  }
  if (Has(summary, "steps")) {
    line("steps", HumanCount(static_cast<uint64_t>(Number(summary, "steps"))));
  }
  if (Has(summary, "samples_per_second")) {
    line("samples/s", HumanCount(static_cast<uint64_t>(Number(summary, "samples_per_second"))));
  }
  line("a step", StepTimes(summary));
  line("incidents", Incidents(summary));
  line("checkpoint", Text(summary, "checkpoint"));
  line("list all", Text(summary, "list_checkpoints"));
  line("its manifest", Text(summary, "checkpoint_manifest"));
  line("loss curve", Text(summary, "loss_curve"));
  line("run folder", Text(summary, "folder"));
  return text;
}

}  // namespace weir
