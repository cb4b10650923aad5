// SPDX-License-Identifier: Apache-2.0
// PrintJob: by hand, so that the keys come in the order of docs/job-file.md.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "worker/builtin_models.h"
#include "worker/job_data.h"
#include "worker/job_file.h"
#include "worker/job_optimizers.h"
#include "worker/job_regime.h"
#include "worker/scalar_text.h"

namespace weir {
namespace {

const char* BoolText(bool value) {
  return value ? "true" : "false";
}

std::string PrintModel(const v1::ModelSpec& model) {
  std::vector<std::string> options;
  if (!model.replica().empty()) {
    const std::map<std::string, std::string> free(model.options().begin(), model.options().end());
    for (const auto& [name, value] : free) {
      options.push_back(absl::StrCat(Quoted(name), ": ", Quoted(value)));
    }
    return absl::StrCat("model: {replica: ", Quoted(model.replica()), ", options: {",
                        absl::StrJoin(options, ", "), "}}\n");
  }
  const BuiltinModel* builtin = FindBuiltinModel(model.builtin());
  const std::map<std::string, std::string> sorted(model.options().begin(), model.options().end());
  for (const auto& [name, value] : sorted) {
    bool list = false;
    for (const ModelOption& option : builtin->options) {
      list |= name == option.name && option.type == ModelOption::Type::kCounts;
    }
    options.push_back(
        list ? absl::StrCat(name, ": [", absl::StrReplaceAll(value, {{",", ", "}}), "]")
             : absl::StrCat(name, ": ", value));
  }
  return absl::StrCat("model: {builtin: ", model.builtin(), ", options: {",
                      absl::StrJoin(options, ", "), "}}\n");
}

std::string PrintData(const v1::JobSpec& spec) {
  const v1::DataSpec& data = spec.data();
  const std::string batch = data.batch().has_global()
                                ? absl::StrCat("{global: ", data.batch().global(), "}")
                                : absl::StrCat("{per_replica: ", data.batch().per_replica(), "}");
  const std::string start = absl::StrCat("data:\n  format: ", data.format());
  if (HasOwnInput(data)) {
    return absl::StrCat(start,
                        IsSource(data) ? "" : absl::StrCat("\n  examples: ", spec.train_examples()),
                        "\n  batch: ", batch, "\n");
  }
  return absl::StrCat(
      start, "\n  train: ", Quoted(data.train()), "\n  train_labels: ", Quoted(data.train_labels()),
      "\n  test: ", Quoted(data.test()), "\n  test_labels: ", Quoted(data.test_labels()),
      "\n  batch: ", batch, "\n  augment: ", BoolText(data.augment()),
      "\n  normalise: ", BoolText(data.normalise()), "\n");
}

std::string PrintOptimizers(const v1::JobSpec& spec) {
  if (spec.optimizers().empty()) return "";
  std::string text = "optimizers:\n";
  const std::map<std::string, v1::Optimizer> sorted(spec.optimizers().begin(),
                                                    spec.optimizers().end());
  for (const auto& [name, optimizer] : sorted) {
    absl::StrAppend(&text, "  ", name, ": ", PrintOptimizer(optimizer), "\n");
  }
  return text;
}

std::string PrintLength(const v1::Extent& length) {
  if (length.has_steps()) return absl::StrCat("steps: ", length.steps(), "\n");
  if (length.has_examples()) return absl::StrCat("examples: ", length.examples(), "\n");
  return absl::StrCat("epochs: ", FormatNumber(length.epochs()), "\n");
}

std::string PrintEvery(const v1::Extent& every) {
  const std::string text = FormatExtent(every);
  return text.empty() ? "" : absl::StrCat("every: ", text, ", ");
}

std::string PrintSaving(const v1::JobSpec& spec) {
  const v1::CheckpointSpec& checkpoint = spec.checkpoint();
  return absl::StrCat(
      "evaluate: {", PrintEvery(spec.evaluate().every()), "data: ", spec.evaluate().data(),
      "}\ncheckpoint: {", PrintEvery(checkpoint.every()), "keep: ", checkpoint.keep(),
      ", at_end: ", BoolText(checkpoint.at_end()), "}\nresume: ", Quoted(spec.resume()),
      "\nreplace: ", BoolText(spec.replace()), "\n");
}

}  // namespace

std::string PrintJob(const v1::JobSpec& spec) {
  const auto time = [](uint64_t ms) {
    return FormatTime(absl::Milliseconds(static_cast<int64_t>(ms)));
  };
  return absl::StrCat(
      "name: ", spec.name(), "\n", PrintModel(spec.model()), PrintData(spec),
      "workers: ", spec.workers(), "\nmin_workers: ", spec.min_workers(),
      "\nreplicas_per_worker: ", spec.replicas_per_worker(), "\n", PrintRegime(spec.regime()),
      PrintOptimizers(spec), PrintLength(spec.length()), PrintSaving(spec), "seed: ", spec.seed(),
      "\ndeterministic: ", BoolText(spec.deterministic()), "\nlog_every: ", spec.log_every(),
      "\nstate_every: ", spec.state_every(), "\nprefetch: ", spec.prefetch(),
      "\nshard_bytes: ", FormatBytes(spec.shard_bytes()),
      "\nmax_bytes: ", FormatBytes(spec.max_bytes()),
      "\nstep_timeout: ", time(spec.step_timeout_ms()),
      "\norphan_ttl: ", time(spec.orphan_ttl_ms()), "\ndevice: ", spec.device(),
      "\nprecision: ", spec.precision(), "\nlogical_devices: ", spec.logical_devices(), "\n");
}

}  // namespace weir
