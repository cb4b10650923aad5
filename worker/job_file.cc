// SPDX-License-Identifier: Apache-2.0
#include "worker/job_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "rpc/job_defaults.h"
#include "rpc/job_length.h"
#include "worker/builtin_models.h"
#include "worker/job_data.h"
#include "worker/job_optimizers.h"
#include "worker/job_overrides.h"
#include "worker/job_regime.h"
#include "worker/yaml_value.h"

namespace weir {
namespace {

constexpr uint64_t kDefaultLogEvery = 50;
constexpr uint64_t kDefaultStateEvery = 50;

void ReadName(YamlMap& job, v1::JobSpec& spec) {
  const auto value = job.Get("name");
  if (!value) return job.Report("\"name\" is missing");
  const auto name = value->String();
  if (!name) return;
  bool fine = !name->empty() && name->size() <= 63 && absl::ascii_isalnum((*name)[0]);
  for (const char c : *name) fine &= absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
  if (!fine) {
    value->Report(
        "expected up to 63 letters, digits, '-', '_' and '.', the first a letter or a digit");
  }
  spec.set_name(*name);
}

void ReadModelOption(const ModelOption& option, const YamlValue& value, std::string& resolved) {
  if (!option.choices.empty()) {
    if (const auto word = value.OneOf(option.choices)) resolved = *word;
    return;
  }
  if (option.type == ModelOption::Type::kCount) {
    if (const auto count = value.Count(1)) resolved = absl::StrCat(*count);
    return;
  }
  // A list of one may be written as the number, and the kept form as it is.
  if (value.is_scalar()) {
    if (const auto count = value.Count(1)) resolved = absl::StrCat(*count);
    return;
  }
  std::vector<uint64_t> counts;
  for (const YamlValue& item : value.List()) {
    if (const auto count = item.Count(1)) counts.push_back(*count);
  }
  resolved = absl::StrJoin(counts, ",");
}

// Of a replica class of the program's own: any, lists as "256,128".
void ReadFreeOptions(const YamlValue& value, v1::ModelSpec& model) {
  auto map = value.Map();
  if (!map) return;
  for (const std::string& name : map->Keys()) {
    const auto option = map->Get(name);
    std::vector<std::string> texts;
    if (option->is_list()) {
      for (const YamlValue& item : option->List()) texts.push_back(item.String().value_or(""));
    } else {
      texts.push_back(option->String().value_or(""));
    }
    (*model.mutable_options())[name] = absl::StrJoin(texts, ",");
  }
}

void ReadModel(YamlMap& job, v1::JobSpec& spec) {
  const auto value = job.Get("model");
  if (!value) return job.Report("\"model\" is missing, as in {builtin: resnet}");
  auto map = value->Map();
  if (!map) return;
  map->NotYet("plugin", "plug-ins come with a later release; use a built-in model");
  map->NotYet("torchscript", "TorchScript models come with a later release; use a built-in model");
  std::vector<std::string> names;
  for (const BuiltinModel& model : BuiltinModels()) names.push_back(model.name);
  const auto builtin = map->Get("builtin");
  const auto replica = map->Get("replica");
  const auto options = map->Get("options");
  map->Finish();
  if (builtin.has_value() == replica.has_value()) {
    return map->Report(
        "expected one of \"builtin\", the name of a built-in model, and \"replica\", that of the "
        "replica class of a program of your own");
  }
  if (replica) {
    const auto name = replica->String();
    if (name && name->empty()) replica->Report("expected a name");
    spec.mutable_model()->set_replica(name.value_or(""));
    if (options) ReadFreeOptions(*options, *spec.mutable_model());
    return;
  }
  const auto name = builtin->OneOf(names);
  if (!name) return;
  spec.mutable_model()->set_builtin(*name);
  auto given = options ? options->Map() : std::nullopt;
  for (const ModelOption& option : FindBuiltinModel(*name)->options) {
    std::string& resolved = (*spec.mutable_model()->mutable_options())[option.name];
    resolved = option.default_value;
    const auto wanted = given ? given->Get(option.name) : std::nullopt;
    if (wanted) ReadModelOption(option, *wanted, resolved);
  }
  if (given) given->Finish();
}

void ReadLength(YamlMap& job, v1::JobSpec& spec) {
  const auto epochs = job.Get("epochs");
  const auto steps = job.Get("steps");
  const auto examples = job.Get("examples");
  if (epochs.has_value() + steps.has_value() + examples.has_value() != 1) {
    return job.Report("expected one of \"epochs\", \"steps\" and \"examples\": the job's length");
  }
  if (epochs && IsSource(spec.data())) {
    return epochs->Report(
        "a source has no epochs: give \"steps\" or \"examples\"; or data.examples, where MakeInput "
        "gives a dataset");
  }
  v1::Extent& length = *spec.mutable_length();
  if (steps) length.set_steps(steps->Count(1).value_or(1));
  if (examples) length.set_examples(examples->Count(1).value_or(1));
  if (!epochs) return;
  const auto number = epochs->Number(0);
  if (number && *number == 0) epochs->Report("expected a number above 0");
  length.set_epochs(number.value_or(1));
}

void ReadEvaluate(YamlMap& job, v1::JobSpec& spec) {
  spec.mutable_evaluate()->set_data("test");
  const auto value = job.Get("evaluate");
  auto map = value ? value->Map() : std::nullopt;
  if (!map) return;
  if (const auto every = map->Get("every")) {
    if (const auto extent = every->Extent()) *spec.mutable_evaluate()->mutable_every() = *extent;
  }
  if (const auto data = map->Get("data")) data->OneOf({"test"});
  map->NotYet("stop", "stop rules come with a later release");
  map->Finish();
}

void ReadCheckpoint(YamlMap& job, v1::JobSpec& spec) {
  v1::CheckpointSpec& checkpoint = *spec.mutable_checkpoint();
  checkpoint.set_keep(3);
  checkpoint.set_at_end(true);
  const auto value = job.Get("checkpoint");
  auto map = value ? value->Map() : std::nullopt;
  if (!map) return;
  if (const auto every = map->Get("every")) {
    if (const auto extent = every->Interval()) *checkpoint.mutable_every() = *extent;
  }
  if (const auto keep = map->Get("keep")) {
    checkpoint.set_keep(
        static_cast<uint32_t>(std::min<uint64_t>(keep->Count(1).value_or(3), 1 << 20)));
  }
  if (const auto at_end = map->Get("at_end")) checkpoint.set_at_end(at_end->Bool().value_or(true));
  map->NotYet("best", "keeping the best checkpoint comes with a later release");
  map->Finish();
}

uint32_t SmallCount(YamlMap& job, const std::string& key, uint32_t fallback) {
  const auto value = job.Get(key);
  const auto count = value ? value->Count(1) : std::nullopt;
  if (count && *count > 65536) value->Report("expected at most 65536");
  return count ? static_cast<uint32_t>(*count) : fallback;
}

void ReadMembers(YamlMap& job, v1::JobSpec& spec) {
  spec.set_workers(SmallCount(job, "workers", 1));
  spec.set_min_workers(SmallCount(job, "min_workers", spec.workers()));
  if (spec.min_workers() > spec.workers()) job.Report("min_workers is above workers");
  spec.set_replicas_per_worker(SmallCount(job, "replicas_per_worker", 1));
}

// In milliseconds; of less than one nothing is left, which a spec takes for the default.
uint64_t TimeOr(YamlMap& job, const std::string& key, absl::Duration fallback) {
  const auto value = job.Get(key);
  const auto time = value ? value->Time() : std::nullopt;
  if (time && *time < absl::Milliseconds(1)) {
    value->Report(absl::StrCat("expected 1 ms or more; without the key it is ",
                               absl::FormatDuration(fallback)));
  }
  return static_cast<uint64_t>(absl::ToInt64Milliseconds(time.value_or(fallback)));
}

uint64_t CountOr(YamlMap& job, const std::string& key, uint64_t minimum, uint64_t fallback) {
  const auto value = job.Get(key);
  return value ? value->Count(minimum).value_or(fallback) : fallback;
}

bool BoolOr(YamlMap& job, const std::string& key, bool fallback) {
  const auto value = job.Get(key);
  return value ? value->Bool().value_or(fallback) : fallback;
}

uint64_t BytesOr(YamlMap& job, const std::string& key) {
  const auto value = job.Get(key);
  return value ? value->Bytes().value_or(0) : 0;
}

void ReadResume(YamlMap& job, v1::JobSpec& spec) {
  if (const auto resume = job.Get("resume")) spec.set_resume(resume->String().value_or(""));
  spec.set_replace(BoolOr(job, "replace", false));
}

void ReadPlace(YamlMap& job, v1::JobSpec& spec) {
  const auto device = job.Get("device");
  const auto on = device ? device->OneOf({"auto", "cpu", "cuda"}) : std::nullopt;
  spec.set_device(on.value_or("auto"));
  const auto precision = job.Get("precision");
  const auto with = precision ? precision->OneOf({"f32", "bf16"}) : std::nullopt;
  spec.set_precision(with.value_or("f32"));
  spec.set_logical_devices(SmallCount(job, "logical_devices", 1));
}

void ReadRest(YamlMap& job, v1::JobSpec& spec) {
  spec.set_seed(CountOr(job, "seed", 0, 1));
  spec.set_deterministic(BoolOr(job, "deterministic", false));
  CheckRegimeKeys(job, spec);
  spec.set_log_every(CountOr(job, "log_every", 1, kDefaultLogEvery));
  spec.set_state_every(CountOr(job, "state_every", 0, kDefaultStateEvery));
  spec.set_shard_bytes(BytesOr(job, "shard_bytes"));
  spec.set_max_bytes(BytesOr(job, "max_bytes"));
  spec.set_step_timeout_ms(TimeOr(job, "step_timeout", kDefaultStepTimeout));
  spec.set_orphan_ttl_ms(TimeOr(job, "orphan_ttl", kDefaultOrphanTtl));
  const auto prefetch = job.Get("prefetch");
  const auto count = prefetch ? prefetch->Count(0) : std::nullopt;
  if (count && *count != 0)
    prefetch->Report("prefetching weights comes with a later release: expected 0");
}

void ReadJob(YamlMap& map, const std::string& folder, JobFile& job) {
  ReadName(map, job.spec);
  ReadModel(map, job.spec);
  ReadData(map, folder, job.spec);
  ReadMembers(map, job.spec);
  ReadRegime(map, job.spec);
  if (const auto optimizers = map.Get("optimizers")) {
    ReadOptimizers(*optimizers, job);
  } else if (job.spec.model().replica().empty()) {
    // A replica class of one's own has options of its own.
    (*job.spec.mutable_optimizers())["sgd"] = DefaultOptimizer();
  }
  ReadLength(map, job.spec);
  ReadEvaluate(map, job.spec);
  ReadCheckpoint(map, job.spec);
  ReadResume(map, job.spec);
  ReadRest(map, job.spec);
  ReadPlace(map, job.spec);
  map.Finish();
}

absl::Status CheckSchedule(const std::string& name, const v1::Schedule& schedule) {
  const auto wrong = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("optimizers.", name, ".learning_rate: ", what));
  };
  uint64_t total = UINT64_MAX;
  if (schedule.has_cosine()) total = schedule.cosine().total_examples();
  if (schedule.has_linear()) total = schedule.linear().total_examples();
  if (total <= schedule.warm_up_examples()) {
    return wrong(absl::StrCat("the warm-up takes ", schedule.warm_up_examples(),
                              " examples, and the whole schedule only ", total));
  }
  const auto& boundaries = schedule.step().boundary_examples();
  for (int i = 1; i < boundaries.size(); ++i) {
    if (boundaries[i - 1] >= boundaries[i]) return wrong("the lengths in \"at\" must rise");
  }
  return absl::OkStatus();
}

void ResolveSchedule(const ScheduleExtents& extents, const v1::JobSpec& spec,
                     v1::Schedule& schedule) {
  schedule.set_warm_up_examples(ExamplesOf(extents.warm_up, spec));
  const bool own_total = extents.total.unit_case() != v1::Extent::UNIT_NOT_SET;
  const uint64_t total = own_total ? ExamplesOf(extents.total, spec) : TotalExamples(spec);
  if (schedule.has_cosine()) schedule.mutable_cosine()->set_total_examples(total);
  if (schedule.has_linear()) schedule.mutable_linear()->set_total_examples(total);
  for (const v1::Extent& boundary : extents.boundaries) {
    schedule.mutable_step()->add_boundary_examples(ExamplesOf(boundary, spec));
  }
}

}  // namespace

absl::StatusOr<JobFile> ParseJobFile(const JobFileSource& source) {
  YamlDiagnostics diagnostics(source.file);
  JobFile job;
  try {
    YAML::Node document = YAML::Load(source.text);
    if (!document.IsMap()) {
      diagnostics.Report("", document.IsNull() ? 0 : 1, "expected a mapping of keys to values");
      return diagnostics.status();
    }
    WEIR_RETURN_IF_ERROR(ApplyOverrides(source.overrides, document, diagnostics));
    YamlMap map(document, "", diagnostics);
    ReadJob(map, source.folder, job);
  } catch (const YAML::Exception& error) {
    diagnostics.Report("", error.mark.is_null() ? 0 : error.mark.line + 1,
                       absl::StrCat("not YAML: ", error.msg));
  }
  WEIR_RETURN_IF_ERROR(diagnostics.status());
  return job;
}

absl::StatusOr<JobFile> ReadJobFile(const std::string& path,
                                    const std::vector<std::string>& overrides) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is a folder; give the job file in it, as ", path, "/job.yaml"));
  }
  errno = 0;
  std::ifstream file(path);
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat(path, ": the job file cannot be read: ", std::strerror(errno)));
  }
  std::stringstream text;
  text << file.rdbuf();
  if (text.str().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the job file is empty; docs/job-file.md shows one"));
  }
  const std::string folder = std::filesystem::absolute(path).parent_path().string();
  return ParseJobFile({path, text.str(), folder, overrides});
}

absl::StatusOr<v1::JobSpec> ResolveJob(const JobFile& job, uint64_t train_examples) {
  v1::JobSpec spec = job.spec;
  spec.set_train_examples(train_examples);
  for (const auto& [name, extents] : job.schedules) {
    v1::Schedule& schedule = *(*spec.mutable_optimizers())[name].mutable_learning_rate();
    ResolveSchedule(extents, spec, schedule);
    WEIR_RETURN_IF_ERROR(CheckSchedule(name, schedule));
  }
  return spec;
}

}  // namespace weir
