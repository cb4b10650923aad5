// SPDX-License-Identifier: Apache-2.0
#include "worker/job_data.h"

#include <filesystem>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace weir {
namespace {

std::string Absolute(const std::string& folder, const std::string& path) {
  if (folder.empty() || path.empty() || path[0] == '/') return path;
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

void ReadBatch(YamlMap& data, v1::DataSpec& spec) {
  const auto value = data.Get("batch");
  if (!value) return data.Report("\"batch\" is missing, as in {global: 256} or {per_replica: 64}");
  auto map = value->Map();
  if (!map) return;
  const auto global = map->Get("global");
  const auto per_replica = map->Get("per_replica");
  map->Finish();
  if (global.has_value() == per_replica.has_value()) {
    return value->Report("expected one of {global: ...} and {per_replica: ...}");
  }
  if (global) spec.mutable_batch()->set_global(global->Count(1).value_or(1));
  if (per_replica) spec.mutable_batch()->set_per_replica(per_replica->Count(1).value_or(1));
}

// The labels lie beside the images under the name that the format's data sets give them.
std::string LabelsBeside(const std::string& images) {
  const size_t slash = images.rfind('/') + 1;
  return images.substr(0, slash) +
         absl::StrReplaceAll(images.substr(slash), {{"images-idx3", "labels-idx1"}});
}

void Refuse(YamlMap& map, const char* key, absl::string_view why) {
  if (const auto value = map.Get(key)) value->Report(why);
}

void ReadFiles(YamlMap& data, const std::string& folder, v1::DataSpec& spec) {
  const auto path = [&](const char* key, const std::string& fallback) {
    const auto given = data.Get(key);
    const auto text = given ? given->String() : std::nullopt;
    return text ? Absolute(folder, *text) : fallback;
  };
  spec.set_train(path("train", ""));
  spec.set_train_labels(path("train_labels", LabelsBeside(spec.train())));
  spec.set_test(path("test", ""));
  spec.set_test_labels(path("test_labels", LabelsBeside(spec.test())));
  if (spec.train().empty()) data.Report("\"train\" is missing: the file of the training images");
  if (spec.test().empty()) data.Report("\"test\" is missing: the file of the test images");
  const auto augment = data.Get("augment");
  spec.set_augment(augment && augment->Bool().value_or(false));
  const auto normalise = data.Get("normalise");
  spec.set_normalise(normalise ? normalise->Bool().value_or(true) : true);
  Refuse(data, "examples", "is for \"format: dataset\"; files have their size");
}

// What MakeInput of the program's replica class gives: a dataset, whose size is said here, or a
// source.
void ReadOwnInput(YamlMap& data, v1::JobSpec& spec) {
  for (const char* key : {"train", "train_labels", "test", "test_labels", "augment", "normalise"}) {
    Refuse(data, key,
           "is for \"format: idx\"; here MakeInput of the replica class gives the input");
  }
  const auto examples = data.Get("examples");
  if (IsSource(spec.data())) {
    if (examples) examples->Report("is for \"format: dataset\"; a source has no size");
    return;
  }
  if (!examples) return data.Report("\"examples\" is missing: the size of the dataset");
  spec.set_train_examples(examples->Count(1).value_or(1));
}

}  // namespace

void ReadData(YamlMap& job, const std::string& folder, v1::JobSpec& spec) {
  const auto value = job.Get("data");
  if (!value) return job.Report("\"data\" is missing");
  auto data = value->Map();
  if (!data) return;
  v1::DataSpec& into = *spec.mutable_data();
  const bool files = spec.model().replica().empty() || data->Get("train") || data->Get("test");
  const auto given = data->Get("format");
  const auto format = given ? given->OneOf({"idx", "dataset", "source"}) : std::nullopt;
  into.set_format(format.value_or(files ? "idx" : data->Get("examples") ? "dataset" : "source"));
  if (HasOwnInput(into) && spec.model().replica().empty()) {
    given->Report("needs \"model.replica\": its MakeInput gives the input");
  }
  HasOwnInput(into) ? ReadOwnInput(*data, spec) : ReadFiles(*data, folder, into);
  ReadBatch(*data, into);
  data->Finish();
}

bool HasOwnInput(const v1::DataSpec& data) {
  return data.format() == "dataset" || IsSource(data);
}

bool IsSource(const v1::DataSpec& data) {
  return data.format() == "source";
}

}  // namespace weir
