// SPDX-License-Identifier: Apache-2.0
#include "worker/input_pipelines.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "rpc/job_length.h"
#include "weir/input.h"
#include "worker/dataset_input.h"
#include "worker/image_input.h"
#include "worker/job_data.h"
#include "worker/source_input.h"
#include "worker/torch_replica.h"
#include "worker/user_input.h"

namespace weir {
namespace {

uint32_t ReplicasOf(const v1::JobSpec& spec) {
  return std::max<uint32_t>(1, spec.replicas_per_worker());
}

PipelinePlace PlaceOf(const v1::JobSpec& spec, uint32_t rank, InputPipelines pipelines) {
  PipelinePlace place;
  place.replicas = ReplicasOf(spec);
  if (pipelines == InputPipelines::kPerReplica) place.pipelines = place.replicas;
  place.first_pipeline = rank * place.pipelines;
  return place;
}

BatchOptions BatchOptionsOf(const v1::JobSpec& spec, const ImageDataset& train) {
  BatchOptions options;
  options.seed = spec.seed();
  options.augment = spec.data().augment();
  if (spec.data().normalise()) options.normalisation = NormalisationOf(train);
  return options;
}

InputParts PartsOf(const v1::JobSpec& spec, const PipelinePlace& place) {
  InputParts parts;
  const auto& options = spec.model().options();
  parts.options = Options(std::map<std::string, std::string>(options.begin(), options.end()));
  parts.num_pipelines = std::max<uint32_t>(1, spec.workers()) * place.pipelines;
  const auto& batch = spec.data().batch();
  if (batch.global() > 0 || batch.per_replica() > 0) {
    const uint64_t replicas = uint64_t{std::max<uint32_t>(1, spec.workers())} * place.replicas;
    parts.per_replica_batch =
        static_cast<int64_t>(std::max<uint64_t>(1, GlobalBatch(spec) / replicas));
  }
  parts.seed = spec.seed();
  return parts;
}

absl::StatusOr<Input> Make(const ReplicaClass& replica_class, const InputParts& parts) {
  Input input;
  WEIR_RETURN_IF_ERROR(CatchErrors(
      absl::StrCat("MakeInput of ",
                   parts.split == Split::kTrain
                       ? absl::StrCat("pipeline ", parts.pipeline_id, " of ", parts.num_pipelines)
                       : "the evaluation"),
      [&] { input = replica_class.make_input(InputContext(parts)); }));
  return input;
}

absl::Status CheckKind(const Input& input, const v1::JobSpec& spec) {
  if (!input.dataset() && !input.source()) {
    return absl::InvalidArgumentError(
        "MakeInput gave no input to train on: return FromDataset(...) or FromCallable(...)");
  }
  if (input.source() && !IsSource(spec.data())) {
    return absl::InvalidArgumentError(
        "MakeInput gave a source, and the job file says data.examples, which is for datasets: "
        "leave it out");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DatasetSlices>> TrainingSlices(const Input& input,
                                                              const v1::JobSpec& spec) {
  DatasetSlices::Options options;
  options.seed = spec.seed();
  options.seeded = input.dataset_options().prefetch == 0;
  WEIR_ASSIGN_OR_RETURN(auto slices, DatasetSlices::Create(input.dataset(), options));
  if (!IsSource(spec.data()) && slices->size() == spec.train_examples()) return slices;
  return absl::InvalidArgumentError(absl::StrCat(
      "MakeInput gave a dataset of ", slices->size(), " examples, and the job file has ",
      IsSource(spec.data()) ? "no data.examples"
                            : absl::StrCat("data.examples: ", spec.train_examples()),
      ": write data.examples: ", slices->size()));
}

absl::StatusOr<std::unique_ptr<SliceReader>> EvaluationSlices(const ReplicaClass& replica_class,
                                                              InputParts parts) {
  parts.split = Split::kEvaluation;
  WEIR_ASSIGN_OR_RETURN(const Input input, Make(replica_class, parts));
  if (input.source()) {
    return absl::InvalidArgumentError(
        "MakeInput gave a source for the evaluation, which needs an end: return a dataset where "
        "split() is kEvaluation, or Input() to evaluate nothing");
  }
  if (!input.dataset()) return std::unique_ptr<SliceReader>();
  DatasetSlices::Options options;
  options.seed = parts.seed;
  options.shuffled = false;
  WEIR_ASSIGN_OR_RETURN(auto slices, DatasetSlices::Create(input.dataset(), options));
  return std::unique_ptr<SliceReader>(std::move(slices));
}

SourcePipeline::Options SourceOptionsOf(const Input& input, const Clock& clock) {
  SourcePipeline::Options options;
  options.prefetch = input.source_options().prefetch;
  options.threads = std::max<uint32_t>(1, input.source_options().threads);
  options.ordered = input.source_options().ordered;
  options.clock = &clock;
  return options;
}

}  // namespace

WorkerInputs ImageInputs(const v1::JobSpec& spec, uint32_t rank, const ImageDataset& train,
                         const ImageDataset& test) {
  const BatchOptions options = BatchOptionsOf(spec, train);
  std::vector<std::unique_ptr<SliceReader>> readers;
  readers.push_back(std::make_unique<ImageSlices>(train, options, ImageSlices::Order::kTraining));
  WorkerInputs inputs;
  inputs.train = std::make_unique<DatasetInput>(std::move(readers),
                                                PlaceOf(spec, rank, InputPipelines::kPerWorker));
  inputs.test = std::make_unique<ImageSlices>(test, options, ImageSlices::Order::kPlain);
  return inputs;
}

absl::StatusOr<WorkerInputs> OwnInputs(const v1::JobSpec& spec, uint32_t rank,
                                       const ReplicaClass& replica_class, const Clock& clock) {
  const PipelinePlace place = PlaceOf(spec, rank, replica_class.pipelines);
  InputParts parts = PartsOf(spec, place);
  std::vector<std::unique_ptr<SliceReader>> readers;
  std::vector<std::unique_ptr<SourcePipeline>> sources;
  uint32_t ahead = 0;
  for (uint32_t i = 0; i < place.pipelines; ++i) {
    parts.pipeline_id = place.first_pipeline + i;
    WEIR_ASSIGN_OR_RETURN(const Input input, Make(replica_class, parts));
    WEIR_RETURN_IF_ERROR(CheckKind(input, spec));
    if (input.source()) {
      sources.push_back(std::make_unique<SourcePipeline>(
          std::make_shared<CallableSource>(input.source()), SourceOptionsOf(input, clock)));
    } else {
      WEIR_ASSIGN_OR_RETURN(readers.emplace_back(), TrainingSlices(input, spec));
      ahead = input.dataset_options().prefetch;
    }
  }
  WorkerInputs inputs;
  if (!sources.empty()) {
    spdlog::info("input is a source: it begins anew after a restart, and nothing is evaluated");
    inputs.train = std::make_unique<SourceInput>(std::move(sources), place);
    return inputs;
  }
  inputs.train = std::make_unique<DatasetInput>(std::move(readers), place, ahead);
  parts.pipeline_id = place.first_pipeline;
  WEIR_ASSIGN_OR_RETURN(inputs.test, EvaluationSlices(replica_class, parts));
  return inputs;
}

absl::Status CheckInput(const v1::JobSpec& spec, const ReplicaClass& replica_class) {
  const bool own = HasOwnInput(spec.data());
  if (own && !replica_class.make_input) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the replica class \"", spec.model().replica(),
        "\" has no MakeInput: name the files of the images in data.train and data.test, or give "
        "it a `static weir::Input MakeInput(const weir::InputContext&)`"));
  }
  if (!own && replica_class.make_input) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the replica class \"", spec.model().replica(),
        "\" has a MakeInput, and the job names files in data.train: leave out the one or the "
        "other"));
  }
  if (replica_class.pipelines == InputPipelines::kSingle && spec.workers() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the replica class \"", spec.model().replica(),
        "\" has a single input pipeline, which feeds the replicas of one process, and the job has ",
        spec.workers(),
        " workers: give it kInputPipelines = kPerWorker, or let one worker have "
        "more replicas_per_worker"));
  }
  return absl::OkStatus();
}

}  // namespace weir
