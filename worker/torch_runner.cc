// SPDX-License-Identifier: Apache-2.0
#include "worker/torch_runner.h"

#include <ATen/Parallel.h>
#include <torch/utils.h>

#include "absl/strings/str_cat.h"
#include "client/declaration_proto.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "worker/data/permutation.h"
#include "worker/replica_parts.h"

namespace weir {
namespace {

// LibTorch's default generator is the process's: nobody may seed it while a model draws its first
// values. (A global, because what it guards is one.)
Mutex& DefaultGenerator() {
  static Mutex& mutex = *new Mutex;
  return mutex;
}

void SeedDefaultGenerator(uint64_t seed) {
  MutexLock lock(DefaultGenerator());
  torch::manual_seed(seed);
}

// Runs a function of the user's and turns what it throws into a status.
template <typename Function>
absl::Status Caught(absl::string_view what, Function&& function) {
  try {
    function();
    return absl::OkStatus();
  } catch (const StepError& error) {
    return error.status();
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat(what, ": ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(what, ": ", error.what()));
  }
}

absl::StatusOr<std::map<std::string, OptimizerGroup>> JobOptimizers(const v1::JobSpec& spec) {
  v1::Declaration message;
  for (const auto& [name, optimizer] : spec.optimizers()) {
    v1::OptimizerGroup& group = *message.add_groups();
    group.set_name(name);
    *group.mutable_optimizer() = optimizer;
  }
  WEIR_ASSIGN_OR_RETURN(const Declaration declaration, FromProto(message));
  std::map<std::string, OptimizerGroup> optimizers;
  for (const OptimizerGroup& group : declaration.groups) optimizers[group.name] = group;
  return optimizers;
}

Metrics Scalars(const Nest& nest) {
  Metrics metrics;
  for (const auto& [name, tensor] : nest) metrics[name] = tensor.item<double>();
  return metrics;
}

class TorchRunner final : public ReplicaRunner {
 public:
  TorchRunner(ReplicaFactory factory, const TorchRunnerOptions& options,
              std::map<std::string, OptimizerGroup> optimizers)
      : factory_(std::move(factory)), seed_(options.spec.seed()), replica_number_(options.replica) {
    const auto& given = options.spec.model().options();
    parts_.options = Options(std::map<std::string, std::string>(given.begin(), given.end()));
    parts_.shape.height = static_cast<int64_t>(options.height);
    parts_.shape.width = static_cast<int64_t>(options.width);
    parts_.shape.classes = static_cast<int64_t>(options.classes);
    parts_.job_optimizers = std::move(optimizers);
  }

  const Declaration& declaration() const override { return parts_.declaration; }

  absl::Status Reset() override {
    replica_.reset();
    parts_.declaration = Declaration();
    parts_.tensors.clear();
    parts_.modules.clear();
    parts_.links.clear();
    MutexLock lock(DefaultGenerator());
    return Caught("building the model", [&] {
      torch::manual_seed(seed_);
      ReplicaContext context(parts_);
      replica_ = factory_(context);
    });
  }

  std::vector<PullItem> Storage() override {
    std::vector<PullItem> items;
    for (size_t i = 0; i < parts_.tensors.size(); ++i) {
      items.push_back({i, parts_.tensors[i].data_ptr(), parts_.tensors[i].nbytes()});
    }
    return items;
  }

  absl::StatusOr<Metrics> Train(const ImageBatch& batch, uint64_t step,
                                GroupUpdates& updates) override {
    Metrics metrics;
    for (const auto& link : parts_.links) link->updates = &updates;
    const absl::Status status = Caught("training step", [&] {
      SetTraining(true);
      SeedDefaultGenerator(MixSeed(seed_, replica_number_, step));
      StepContext context(step);
      metrics = Scalars(replica_->Train(context, Inputs(batch)));
    });
    for (const auto& link : parts_.links) link->updates = nullptr;
    if (!status.ok()) return status;
    return metrics;
  }

  absl::StatusOr<Metrics> Evaluate(const ImageBatch& batch) override {
    Metrics metrics;
    WEIR_RETURN_IF_ERROR(Caught("evaluation", [&] {
      const torch::NoGradGuard without_gradients;
      SetTraining(false);
      StepContext context(0);
      metrics = Scalars(replica_->Evaluate(context, Inputs(batch)));
    }));
    return metrics;
  }

 private:
  void SetTraining(bool training) {
    for (const auto& [name, module] : parts_.modules) module->train(training);
  }

  // Views of the batch's memory.
  static Nest Inputs(const ImageBatch& batch) {
    const auto examples = static_cast<int64_t>(batch.examples);
    // LibTorch takes no const memory; the steps of a replica do not write to their input.
    auto* images = const_cast<float*>(batch.images.data());
    auto* labels = const_cast<int64_t*>(batch.labels.data());
    return {{"image", torch::from_blob(images, {examples, 1, static_cast<int64_t>(batch.height),
                                                static_cast<int64_t>(batch.width)})},
            {"label", torch::from_blob(labels, {examples}, torch::kInt64)}};
  }

  const ReplicaFactory factory_;
  const uint64_t seed_;
  const uint32_t replica_number_;
  ReplicaParts parts_;
  std::unique_ptr<Replica> replica_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ReplicaRunner>> CreateTorchRunner(
    const ModelRegistry& models, const TorchRunnerOptions& options) {
  // get_num_threads may say 1 where OpenMP would use more: it is set, not asked.
  at::set_num_threads(1);
  WEIR_ASSIGN_OR_RETURN(ReplicaFactory factory, models.Find(options.spec.model().builtin()));
  WEIR_ASSIGN_OR_RETURN(auto optimizers, JobOptimizers(options.spec));
  auto runner = std::make_unique<TorchRunner>(std::move(factory), options, std::move(optimizers));
  WEIR_RETURN_IF_ERROR(runner->Reset());
  return std::unique_ptr<ReplicaRunner>(std::move(runner));
}

}  // namespace weir
