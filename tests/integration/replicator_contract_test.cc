// SPDX-License-Identifier: Apache-2.0
// One class of replicas, with all that goes between replicas in it, over every shape of a cluster
// and in every regime: what it trains in step does not depend on where the replicas are.
#include <gmock/gmock.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <atomic>

#include "absl/strings/str_cat.h"
#include "tests/integration/trained_workers.h"
#include "tests/support/lamb.h"
#include "tests/support/relative_distance.h"
#include "weir/global_batch_norm.h"
#include "weir/replicator.h"

namespace weir {
namespace {

// Batch norm over replicas, two optimizers of which one steps twice, a loss with a term over all
// replicas, a frozen parameter, a moving average; where asked for dropout, a deferred last step,
// and a part that a local optimizer trains.
class Everything final : public Replica {
 public:
  explicit Everything(ReplicaContext& context)
      : trunk_(context.Add("trunk", torch::nn::Linear(64, 12))),
        norm_(context.Add("norm", GlobalBatchNorm1d(12))),
        head_(context.Add("head", Frozen(torch::nn::Linear(12, 4)))),
        trunk_sgd_(context.WrapOptimizer("trunk", TrunkParameters(), Options())
                       .Clip({0, /*global_norm=*/2, 0})),
        head_sgd_(context.WrapOptimizer("head", head_->parameters(), Options())),
        dropout_(context.options().Get("dropout", 0.0)),
        in_sync_(context.options().Get("in_sync", int64_t{0})),
        timing_(context.options().Get("deferred", false) ? kDeferred : kAtOnce),
        average_(context.AddTarget("average", torch::nn::Linear(64, 12), trunk_, {0, 0.5})) {
    if (!context.options().Get("lamb", false)) return;
    own_ = context.Add("own", torch::nn::Linear(64, 4));
    lamb_ = context.WrapOptimizer("lamb", std::make_unique<Lamb>(own_->parameters()));
    lamb_.Clip({0, /*global_norm=*/2, 0});
  }

  Nest Train(StepContext& context, const Nest& batch) override {
    if (context.num_replicas_in_sync() != in_sync_) {
      throw StepError(absl::InternalError(
          absl::StrCat("in sync are ", context.num_replicas_in_sync(), " replicas")));
    }
    const torch::Tensor code = torch::relu(norm_(trunk_(dropout_(batch["image"].flatten(1)))));
    const torch::Tensor scores = head_(code);
    const torch::Tensor mean = context.AllReduce(MeanOverExamples(scores), ReduceOp::kMean);
    const torch::Tensor loss = LossOf(scores, batch) + 0.1 * mean.square().sum();
    loss.backward();
    trunk_sgd_.Step();
    head_sgd_.Step();
    LossOf(head_(code.detach()), batch).backward();
    head_sgd_.Step(timing_);
    if (!own_.is_empty()) {
      LossOf(own_(batch["image"].flatten(1)), batch).backward();
      lamb_.Step();
    }
    return {{"loss", loss.detach()}};
  }

  Nest Evaluate(StepContext&, const Nest& batch) override {
    const torch::Tensor scores = head_(torch::relu(norm_(trunk_(batch["image"].flatten(1)))));
    return {{"loss", LossOf(scores, batch)},
            {"accuracy", scores.argmax(1).eq(batch["label"]).to(torch::kFloat64).mean()}};
  }

 private:
  static torch::optim::SGDOptions Options() { return torch::optim::SGDOptions(0.05).momentum(0.9); }
  static torch::nn::Linear Frozen(torch::nn::Linear linear) {
    linear->bias.set_requires_grad(false);
    return linear;
  }
  // Of no examples: 0, with a graph like others.
  static torch::Tensor MeanOverExamples(const torch::Tensor& scores) {
    return scores.sum(0) / static_cast<double>(std::max<int64_t>(scores.size(0), 1));
  }
  static torch::Tensor LossOf(const torch::Tensor& scores, const Nest& batch) {
    return torch::nn::functional::cross_entropy(scores, batch["label"]);
  }
  std::vector<torch::Tensor> TrunkParameters() {
    std::vector<torch::Tensor> parameters = trunk_->parameters();
    for (const torch::Tensor& parameter : norm_->parameters()) parameters.push_back(parameter);
    return parameters;
  }

  torch::nn::Linear trunk_;
  GlobalBatchNorm1d norm_;
  torch::nn::Linear head_;
  Optimizer trunk_sgd_, head_sgd_;
  torch::nn::Dropout dropout_;
  const int64_t in_sync_;
  const StepTiming timing_;
  torch::nn::Linear average_;
  torch::nn::Linear own_{nullptr};
  Optimizer lamb_;
};

struct Shape {
  uint32_t workers = 1;
  uint32_t replicas = 1;  // of each worker
};

std::string NameOf(const Shape& shape) {
  return shape.workers == 1 ? absl::StrCat("Local", shape.replicas)
                            : absl::StrCat(shape.workers, "x", shape.replicas);
}

v1::JobSpec Job(const Shape& shape, uint64_t global_batch = 15) {
  v1::JobSpec spec = SmallJob("contract", {});
  spec.clear_optimizers();
  spec.mutable_model()->clear_options();
  spec.mutable_model()->clear_builtin();
  spec.mutable_model()->set_replica("everything");
  spec.mutable_data()->mutable_batch()->set_global(global_batch);
  spec.set_workers(shape.workers);
  spec.set_replicas_per_worker(shape.replicas);
  return spec;
}

// How many replicas are in step with each other.
uint32_t InSync(const v1::JobSpec& spec) {
  switch (spec.regime().kind()) {
    case v1::REGIME_SYNC:
      return spec.workers() * spec.replicas_per_worker();
    case v1::REGIME_SYNC_GROUPS:
      return static_cast<uint32_t>(spec.regime().sync_group_size());
    default:
      return spec.replicas_per_worker();
  }
}

// A whole job; what each worker holds at its end.
std::vector<absl::StatusOr<Trained>> Train(v1::JobSpec spec) {
  (*spec.mutable_model()->mutable_options())["in_sync"] = absl::StrCat(InSync(spec));
  ModelRegistry models;
  models.SetReplica(ReplicaClassOf<Everything>());
  if (spec.workers() == 1) return {TrainLocally(spec, models)};

  WorkersOptions options;
  options.job.regime_options = spec.regime();
  if (spec.regime().kind() == v1::REGIME_SYNC_GROUPS) {
    options.workers_per_group = InSync(spec) / spec.replicas_per_worker();
    options.job.regime_options.set_sync_group_size(options.workers_per_group);
  }
  return TrainWorkers(spec, options, models);
}

std::vector<float> TrainInSync(const v1::JobSpec& spec) {
  return ValuesOfAll(Train(spec));
}

class ReplicatorContract : public testing::TestWithParam<Shape> {};

v1::JobSpec WithLamb(v1::JobSpec spec) {
  (*spec.mutable_model()->mutable_options())["lamb"] = "true";
  return spec;
}

// Steps of 15 examples, the last one of an epoch 5: parts are unequal, and some are empty.
TEST_P(ReplicatorContract, InSyncEqualsOneReplicaWithTheJoinedBatch) {
  const std::vector<float> alone = TrainInSync(WithLamb(Job({1, 1})));
  EXPECT_LE(RelativeDistance(TrainInSync(WithLamb(Job(GetParam()))), alone), kEqual);
  // The comparison can fail.
  EXPECT_GT(RelativeDistance(TrainInSync(Job({1, 1}, 14)), alone), 1e-3);
}

// Also with dropout, which draws from LibTorch's one generator of the process: workers that are
// threads of one would share it.
class ReplicatorContractOfOneProcess : public ReplicatorContract {};

TEST_P(ReplicatorContractOfOneProcess, DeterministicIsTwiceTheSameBitForBit) {
  v1::JobSpec spec = WithLamb(Job(GetParam()));
  spec.set_deterministic(true);
  (*spec.mutable_model()->mutable_options())["dropout"] = "0.25";
  const std::vector<float> first = TrainInSync(spec);
  EXPECT_EQ(TrainInSync(spec), first);
  spec.set_seed(12);
  EXPECT_NE(TrainInSync(spec), first);
}

TEST_P(ReplicatorContract, DeferredEqualsWaitedForBitForBit) {
  v1::JobSpec spec = Job(GetParam());
  spec.set_deterministic(true);
  const std::vector<float> waited = TrainInSync(spec);
  (*spec.mutable_model()->mutable_options())["deferred"] = "true";
  EXPECT_EQ(TrainInSync(spec), waited);
}

TEST_P(ReplicatorContract, TrainsInTheOtherRegimes) {
  std::vector<v1::RegimeSpec> regimes(2);
  regimes[0].set_kind(v1::REGIME_ASYNC);
  regimes[1].set_kind(v1::REGIME_BOUNDED_STALENESS);
  regimes[1].set_bounded_staleness(3);
  // Groups of one worker each, and of two.
  if (GetParam().workers * GetParam().replicas == 4 && GetParam().workers > 1) {
    v1::RegimeSpec& groups = regimes.emplace_back();
    groups.set_kind(v1::REGIME_SYNC_GROUPS);
    groups.set_sync_group_size(2);
  }
  for (const v1::RegimeSpec& regime : regimes) {
    v1::JobSpec spec = Job(GetParam(), 16);
    *spec.mutable_regime() = regime;
    spec.mutable_length()->set_epochs(1);
    for (const absl::StatusOr<Trained>& result : Train(spec)) {
      WEIR_ASSERT_OK(result) << regime.ShortDebugString();
      EXPECT_GT(result->summary.test_accuracy, 0.5) << regime.ShortDebugString();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ReplicatorContractOfOneProcess,
                         testing::Values(Shape{1, 1}, Shape{1, 4}),
                         [](const auto& info) { return NameOf(info.param); });

INSTANTIATE_TEST_SUITE_P(Shapes, ReplicatorContract,
                         testing::Values(Shape{1, 1}, Shape{1, 4}, Shape{2, 1}, Shape{2, 2},
                                         Shape{4, 1}),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace weir
