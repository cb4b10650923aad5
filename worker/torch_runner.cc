// SPDX-License-Identifier: Apache-2.0
#include "worker/torch_runner.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <spdlog/spdlog.h>
#include <torch/cuda.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"
#include "client/declaration_proto.h"
#include "common/status_macros.h"
#include "rpc/regime.h"
#include "weir/replicator.h"
#include "worker/data/permutation.h"
#include "worker/default_generator.h"
#include "worker/deferred_updates.h"
#include "worker/local_collectives.h"
#include "worker/local_optimizer.h"
#include "worker/local_step.h"
#include "worker/replica_loop.h"
#include "worker/replica_threads.h"
#include "worker/replica_variables.h"
#include "worker/torch_replica.h"
#include "worker/training_steps.h"

namespace weir {
namespace {

absl::StatusOr<std::map<std::string, JobOptimizer>> JobOptimizers(const v1::JobSpec& spec) {
  v1::Declaration message;
  for (const auto& [name, optimizer] : spec.optimizers()) {
    v1::OptimizerGroup& group = *message.add_groups();
    group.set_name(name);
    *group.mutable_optimizer() = optimizer;
  }
  WEIR_ASSIGN_OR_RETURN(const Declaration declaration, FromProto(message));
  std::map<std::string, JobOptimizer> optimizers;
  for (const OptimizerGroup& group : declaration.groups) {
    const v1::Optimizer& given = spec.optimizers().at(group.name);
    const v1::GradientClip& clip = given.clip();
    optimizers[group.name] = {group,
                              {clip.value(), clip.global_norm(), clip.push_norm()},
                              {given.no_decay().begin(), given.no_decay().end()}};
  }
  return optimizers;
}

uint32_t ReplicasOf(const v1::JobSpec& spec) {
  return std::max<uint32_t>(1, spec.replicas_per_worker());
}

// Each of replicas in step.
uint32_t GroupsInStep(const v1::JobSpec& spec) {
  if (IsSync(spec)) return 1;
  const uint64_t groups = SyncGroups(spec);
  return groups > 0 ? static_cast<uint32_t>(groups) : std::max<uint32_t>(1, spec.workers());
}

// Each replica must have all gradients, so all are waited for.
std::string WhyNoLocalOptimizers(const v1::JobSpec& spec) {
  const bool sync = IsSync(spec) || spec.regime().kind() == v1::REGIME_UNSPECIFIED;
  if (sync && spec.regime().backup_workers() == 0) return "";
  return absl::StrCat("the job's regime is ", RegimeText(spec));
}

// The seed of the numbers that StepContext::rng draws: none of the default generator's.
uint64_t OwnSeed(uint64_t seed, uint64_t replica, uint64_t step) {
  return MixSeed(MixSeed(seed, replica, step), 1, 0);
}

Nest CallTrain(Replica& replica, StepContext& context, const Nest& input) {
  return replica.Train(context, input);
}

LocalCollectives::Step CollectivesOf(const ReplicaStep& step) {
  return {step.step,     step.attempt, step.first_replica, step.first_index, step.replicas_in_sync,
          step.newcomer, step.others};
}

class TorchRunner final : public ReplicaRunner, public ReplicaLoop {
 public:
  TorchRunner(ReplicaClass replica_class, const TorchRunnerOptions& options,
              const std::map<std::string, JobOptimizer>& optimizers, const DeviceMap& devices)
      : class_(std::move(replica_class)),
        optimizers_(optimizers),
        seed_(options.spec.seed()),
        generator_(ReplicasOf(options.spec)),
        in_turn_(options.spec.deterministic() && ReplicasOf(options.spec) > 1),
        meeting_(MeetingOptions(options.spec)),
        collectives_(meeting_),
        threads_(ReplicasOf(options.spec)) {
    // get_num_threads may say 1 where OpenMP would use more: it is set, not asked. OpenMP's number
    // is each thread's own.
    threads_.RunInOrder([](uint32_t) { at::set_num_threads(1); });
    const auto& given = options.spec.model().options();
    ReplicaParts parts;
    parts.step.devices = devices;
    parts.options = Options(std::map<std::string, std::string>(given.begin(), given.end()));
    parts.shape.height = static_cast<int64_t>(options.height);
    parts.shape.width = static_cast<int64_t>(options.width);
    parts.shape.classes = static_cast<int64_t>(options.classes);
    parts.job_optimizers = optimizers;
    parts.step.sync_groups = GroupsInStep(options.spec);
    parts.no_local_optimizers = WhyNoLocalOptimizers(options.spec);
    for (uint32_t i = 0; i < replicas(); ++i) {
      parts.step.replica = i;
      parts.step.meeting = &meeting_;
      parts.step.collectives = &collectives_.of(i);
      parts.step.variables = &variables_;
      parts.step.deferred = &deferred_;
      parts.step.rng = at::detail::createCPUGenerator();
      replicas_.push_back(
          std::make_unique<TorchReplica>(parts, options.spec.precision() == "bf16"));
    }
    evaluated_.resize(replicas());
  }

  ~TorchRunner() override {
    variables_.Clear();
    threads_.RunInOrder([&](uint32_t i) { replicas_[i].reset(); });
  }

  uint32_t replicas() const override { return threads_.size(); }
  const Declaration& declaration() const override { return variables_.declaration(); }

  absl::Status Settle() override { return deferred_.Settle(); }

  absl::Status Reset() override {
    variables_.Clear();
    absl::Status status;
    const DefaultGenerator::Lock lock;
    threads_.RunInOrder([&](uint32_t i) {
      if (status.ok()) status = replicas_[i]->Build(class_.create, seed_);
      if (status.ok()) status = variables_.Join(replicas_[i]->parts());
    });
    if (status.ok()) status = CheckOptimizersUsed();
    return status;
  }

  std::vector<PullItem> Storage() override { return variables_.Storage(); }
  void Land(absl::Span<const PullItem> pulled) override {
    variables_.Land(pulled);
    for (const auto& link : replicas_[0]->parts().links) {
      if (link->local != nullptr) link->local->NoteWritten();
    }
  }
  std::vector<PushItem> State() override { return variables_.State(); }
  absl::StatusOr<std::vector<LocalValues>> LocalOptimizers() override {
    std::vector<LocalValues> all;
    for (const auto& link : replicas_[0]->parts().links) {
      if (link->local == nullptr) continue;
      WEIR_ASSIGN_OR_RETURN(all.emplace_back(), LocalValuesOf(*link));
    }
    return all;
  }
  void KeepState() override { variables_.KeepState(); }
  void RestoreState() override { variables_.RestoreState(); }

  absl::StatusOr<Metrics> Train(const ReplicaStep& step, absl::Span<const ReplicaBatch> batches,
                                GroupUpdates& updates) override {
    if (batches.size() != replicas()) {
      return absl::InvalidArgumentError(
          absl::StrCat(batches.size(), " batches for ", replicas(), " replicas"));
    }
    WEIR_RETURN_IF_ERROR(Settle());
    if (!between_.empty() && between_place_ != KeyOf(step)) between_.clear();
    const bool again = std::exchange(trained_, KeyOf(step)) == KeyOf(step);
    if (again) WEIR_RETURN_IF_ERROR(SayAgain(step));
    meeting_.Begin(step.step, step.first_replica);
    collectives_.BeginStep(CollectivesOf(step));
    generator_.Begin(seed_, step.first_replica, step.step);
    // Alone, replicas in parallel draw in an order that nobody knows: one seed is as good as
    // another.
    if (!in_turn_) generator_.Take(0);
    const at::ThreadLocalState caller;
    threads_.RunAll([&](uint32_t i) {
      const at::ThreadLocalStateGuard as_the_caller(caller);
      meeting_.Start(i);
      const TorchReplica::Step place{step.step, step.global_step,
                                     OwnSeed(seed_, step.first_replica + i, step.step), &updates};
      meeting_.End(i, replicas_[i]->Train(function_, place, batches[i]));
    });
    WEIR_RETURN_IF_ERROR(meeting_.failure());
    return MeanMetrics(Outputs(replicas()));
  }

  absl::Status Loop(TrainingSteps& steps) override {
    steps_ = &steps;
    absl::Status status = CatchErrors("the model's Loop", [&] {
      if (class_.loop) return class_.loop(*this);
      Replicator<Replica> replicator(*this);
      while (replicator.Next()) replicator.Log(replicator.Run(&Replica::Train));
    });
    status.Update(Settle());
    steps_ = nullptr;
    function_ = CallTrain;
    return status;
  }

  bool Next() override { return steps_->Next(); }

  absl::StatusOr<std::vector<Nest>> RunStep(const TorchReplica::StepFunction& function) override {
    function_ = function;
    WEIR_RETURN_IF_ERROR(steps_->Step().status());
    return Outputs(replicas());
  }

  void Log(const std::vector<Nest>& outputs) override { steps_->Log(MeanMetrics(outputs)); }

  absl::StatusOr<Nest> Collect(
      const std::vector<Nest>& values,
      const std::function<Nest(StepContext&, const Nest&)>& function) override {
    if (values.size() != replicas()) {
      return absl::InvalidArgumentError(
          absl::StrCat(values.size(), " values for ", replicas(), " replicas"));
    }
    const ReplicaStep place = steps_->Place();
    if (std::exchange(between_place_, KeyOf(place)) != KeyOf(place)) between_.clear();
    between_.push_back({values, function});
    absl::Status status = Say(between_.back(), place);
    while (MayRepeatStep(status)) {
      spdlog::info("repeating collectives before step={}: {}", place.step, status.ToString());
      status = SayAgain(steps_->Place());
    }
    if (status.ok()) return replicas_[0]->output();
    between_.pop_back();
    return status;
  }

  ReplicaStep Place() const override { return steps_->Place(); }

  absl::StatusOr<Metrics> Evaluate(absl::Span<const ReplicaBatch> batches) override {
    meeting_.Begin(0, 0);
    const at::ThreadLocalState caller;
    threads_.RunAll([&](uint32_t i) {
      if (i >= batches.size()) return;
      const at::ThreadLocalStateGuard as_the_caller(caller);
      evaluated_[i] = replicas_[i]->Evaluate(batches[i]);
    });
    for (uint32_t i = 0; i < batches.size(); ++i) WEIR_RETURN_IF_ERROR(evaluated_[i]);
    return MeanMetrics(Outputs(static_cast<uint32_t>(batches.size())));
  }

 private:
  // A collective between steps.
  struct Between {
    std::vector<Nest> values;
    std::function<Nest(StepContext&, const Nest&)> function;
  };
  using PlaceKey = std::pair<uint64_t, uint64_t>;  // attempt and step

  static PlaceKey KeyOf(const ReplicaStep& place) { return {place.attempt, place.step}; }

  absl::Status Say(const Between& between, const ReplicaStep& place) {
    meeting_.Begin(place.step, place.first_replica);
    collectives_.BeginBefore(CollectivesOf(place));
    generator_.Begin(seed_, place.first_replica, place.step);
    threads_.RunAll([&](uint32_t i) {
      meeting_.Start(i);
      meeting_.End(
          i, replicas_[i]->Collect({place.step, place.global_step}, [&](StepContext& context) {
            return between.function(context, between.values[i]);
          }));
    });
    return meeting_.failure();
  }

  // All of them since the last step. A worker has left: some had the result of the last one and
  // were in the step after it, others not, and all begin where they are together.
  absl::Status SayAgain(const ReplicaStep& place) {
    if (!between_.empty()) collectives_.BeginAgain();
    for (const Between& between : between_) WEIR_RETURN_IF_ERROR(Say(between, place));
    return absl::OkStatus();
  }

  ReplicaMeeting::Options MeetingOptions(const v1::JobSpec& spec) {
    ReplicaMeeting::Options options;
    options.replicas = ReplicasOf(spec);
    if (spec.step_timeout_ms() > 0) options.timeout = absl::Milliseconds(spec.step_timeout_ms());
    options.in_turn = in_turn_;
    options.turn_taken = [this](uint32_t replica) { generator_.Take(replica); };
    options.turn_passed = [this](uint32_t replica) { generator_.Pass(replica); };
    return options;
  }

  // The job speaks of no optimizer that the model does not have.
  absl::Status CheckOptimizersUsed() const {
    std::vector<std::string> names;
    for (const auto& link : replicas_[0]->parts().links) names.push_back(link->name);
    for (const auto& [name, optimizer] : optimizers_) {
      if (std::count(names.begin(), names.end(), name) > 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("optimizers.", name, ": the model has no optimizer of this name; it has ",
                       names.empty() ? "none" : absl::StrJoin(names, ", ")));
    }
    return absl::OkStatus();
  }

  // Of the first `count` replicas.
  std::vector<Nest> Outputs(uint32_t count) const {
    std::vector<Nest> outputs;
    for (uint32_t i = 0; i < count; ++i) outputs.push_back(replicas_[i]->output());
    return outputs;
  }

  // By replica, each counted by its weight.
  absl::StatusOr<Metrics> MeanMetrics(const std::vector<Nest>& outputs) const {
    MetricsMean mean;
    WEIR_RETURN_IF_ERROR(CatchErrors("reading metrics", [&] {
      for (size_t i = 0; i < std::min(outputs.size(), replicas_.size()); ++i) {
        mean.Add(ScalarsOf(outputs[i]), replicas_[i]->weight());
      }
    }));
    return mean.Means();
  }

  const ReplicaClass class_;
  const std::map<std::string, JobOptimizer> optimizers_;
  const uint64_t seed_;
  DefaultGenerator generator_;
  const bool in_turn_;
  ReplicaMeeting meeting_;
  LocalCollectives collectives_;
  ReplicaVariables variables_;
  DeferredUpdates deferred_{variables_};
  std::vector<std::unique_ptr<TorchReplica>> replicas_;
  std::vector<absl::Status> evaluated_;  // by replica
  TorchReplica::StepFunction function_ = CallTrain;
  TrainingSteps* steps_ = nullptr;  // while the loop runs
  std::vector<Between> between_;    // since the last step, before that of:
  PlaceKey between_place_;
  absl::optional<PlaceKey> trained_;  // the last step, done or failed
  ReplicaThreads threads_;            // ends first
};

}  // namespace

absl::StatusOr<std::unique_ptr<ReplicaRunner>> CreateTorchRunner(
    const ModelRegistry& models, const TorchRunnerOptions& options) {
  const v1::ModelSpec& model = options.spec.model();
  WEIR_ASSIGN_OR_RETURN(ReplicaClass replica_class, model.replica().empty()
                                                        ? models.Find(model.builtin())
                                                        : models.FindReplica(model.replica()));
  WEIR_ASSIGN_OR_RETURN(const auto optimizers, JobOptimizers(options.spec));
  DeviceMap::Options places;
  if (!options.spec.device().empty()) places.device = options.spec.device();
  places.replicas = ReplicasOf(options.spec);
  places.logical_devices = std::max<uint32_t>(1, options.spec.logical_devices());
  places.accelerators = static_cast<uint32_t>(torch::cuda::device_count());
  WEIR_ASSIGN_OR_RETURN(const DeviceMap devices, DeviceMap::Create(places));
  auto runner =
      std::make_unique<TorchRunner>(std::move(replica_class), options, optimizers, devices);
  WEIR_RETURN_IF_ERROR(runner->Reset());
  return std::unique_ptr<ReplicaRunner>(std::move(runner));
}

}  // namespace weir
