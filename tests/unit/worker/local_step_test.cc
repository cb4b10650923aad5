// SPDX-License-Identifier: Apache-2.0
// A model whose replicas step an optimizer themselves: what is pushed, and what they take up.
#include "worker/local_step.h"

#include <gmock/gmock.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>

#include <cstring>
#include <functional>
#include <limits>

#include "tests/support/lamb.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/worker/sine_images.h"
#include "weir/replicator.h"
#include "worker/torch_runner.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Settings {
  std::function<void(v1::JobSpec&)> spec = [](v1::JobSpec&) {};
  std::function<void(Optimizer&)> wrapped = [](Optimizer&) {};
  bool frozen = false;
  float poison = 0;
};

class WithLamb final : public Replica {
 public:
  WithLamb(ReplicaContext& context, const Settings& settings)
      : net_(context.Add("net", torch::nn::Linear(16, 2))), settings_(settings) {
    for (torch::Tensor& parameter : net_->parameters()) {
      parameter.set_requires_grad(!settings.frozen);
    }
    lamb_ = context.WrapOptimizer("lamb", std::make_unique<Lamb>(net_->parameters()));
    settings.wrapped(lamb_);
  }
  Nest Train(StepContext&, const Nest& batch) override {
    const torch::Tensor loss =
        torch::nn::functional::cross_entropy(net_(batch["image"].flatten(1)), batch["label"]);
    loss.backward();
    if (settings_.poison != 0) net_->bias.mutable_grad() *= settings_.poison;
    lamb_.Step();
    return {{"loss", loss.detach()}};
  }

 private:
  torch::nn::Linear net_;
  Optimizer lamb_;
  const Settings settings_;
};

absl::StatusOr<std::unique_ptr<ReplicaRunner>> Create(const Settings& settings,
                                                      uint32_t replicas = 1) {
  ModelRegistry models;
  models.Add("model", {[settings](ReplicaContext& context) {
                         return std::make_unique<WithLamb>(context, settings);
                       },
                       nullptr});
  TorchRunnerOptions options;
  options.spec.mutable_model()->set_builtin("model");
  options.spec.mutable_regime()->set_kind(v1::REGIME_SYNC);
  options.spec.set_replicas_per_worker(replicas);
  settings.spec(options.spec);
  options.height = options.width = 4;
  return CreateTorchRunner(models, options);
}

// What would be pushed: by variable, whether there is a value.
class Values final : public GroupUpdates {
 public:
  bool IsMade(uint32_t) const override { return made; }
  absl::Status Update(uint32_t group, absl::Span<const PushItem> values,
                      absl::Span<const PullItem> weights, double weight) override {
    EXPECT_EQ(group, 1u);
    EXPECT_EQ(weights.size(), 0u);
    EXPECT_EQ(weight, 1);
    for (const PushItem& value : values) {
      EXPECT_NE(value.data, nullptr);
      pushed.push_back(value.variable);
    }
    return absl::OkStatus();
  }
  std::vector<size_t> pushed;
  bool made = false;
};

std::vector<float> WeightsOf(ReplicaRunner& runner) {
  const PullItem item = runner.Storage()[0];
  const auto* data = static_cast<const float*>(item.data);
  return {data, data + item.bytes / sizeof(float)};
}

TEST(ALocalOptimizer, PushesWeightsAndWhatItKeeps) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create({}));
  const Declaration& declaration = runner->declaration();
  ASSERT_EQ(declaration.groups.size(), 1u);
  EXPECT_EQ(std::get<Average>(declaration.groups[0].optimizer).decay, 0);
  ASSERT_EQ(declaration.variables.size(), 7u);
  EXPECT_EQ(declaration.variables[2].name, "lamb/state/net/bias/mean");
  for (const VariableSpec& variable : declaration.variables) EXPECT_EQ(variable.group, 1u);
  Values values;
  WEIR_ASSERT_OK(runner->Train(ReplicaStep(), {SineImages(6)}, values));
  EXPECT_THAT(values.pushed, ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

TEST(ALocalOptimizer, SaysWhatItHasComeToAndWhetherThisProcessHasPushedThat) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create({}));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto before, runner->LocalOptimizers());
  ASSERT_EQ(before.size(), 1u);
  EXPECT_FALSE(before[0].told);
  Values values;
  WEIR_ASSERT_OK(runner->Train(ReplicaStep(), {SineImages(6)}, values));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto after, runner->LocalOptimizers());
  ASSERT_EQ(after.size(), 1u);
  EXPECT_TRUE(after[0].told);
  EXPECT_EQ(after[0].group, 1u);
  std::vector<size_t> variables;
  for (const PushItem& item : after[0].values) {
    EXPECT_EQ(item.data, runner->Storage()[item.variable].data);
    variables.push_back(item.variable);
  }
  EXPECT_EQ(variables, values.pushed);
}

TEST(ALocalOptimizer, DoesNotStepAgainInAStepThatIsRepeated) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create({}));
  Values values;
  const auto weights = [&] { return WeightsOf(*runner); };
  const std::vector<float> first = weights();
  WEIR_ASSERT_OK(runner->Train(ReplicaStep(), {SineImages(6)}, values));
  const std::vector<float> stepped = weights();
  EXPECT_NE(stepped, first);
  values.made = true;
  WEIR_ASSERT_OK(runner->Train(ReplicaStep(), {SineImages(6)}, values));
  EXPECT_EQ(weights(), stepped);
}

// Where a job goes back to a checkpoint: values come anew, and steps are made again.
TEST(ALocalOptimizer, TakesUpWhatHasLanded) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create({}));
  std::vector<std::string> first;
  for (const PullItem& item : runner->Storage()) {
    first.emplace_back(static_cast<const char*>(item.data), item.bytes);
  }
  Values values;
  WEIR_ASSERT_OK(runner->Train(ReplicaStep(), {SineImages(6)}, values));
  const std::vector<float> stepped = WeightsOf(*runner);
  const std::vector<PullItem> storage = runner->Storage();
  for (const PullItem& item : storage) {
    std::memcpy(item.data, first[item.variable].data(), item.bytes);
  }
  runner->Land(storage);
  WEIR_ASSERT_OK(runner->Train(ReplicaStep(), {SineImages(6)}, values));
  EXPECT_EQ(WeightsOf(*runner), stepped);
  WEIR_ASSERT_OK(runner->Train(ReplicaStep(), {SineImages(6)}, values));
  EXPECT_NE(WeightsOf(*runner), stepped);
}

// Two processes, of which this one is rank 1; the other broadcasts halves.
class WithAnElder final : public ProcessCollectives {
 public:
  absl::StatusOr<std::vector<Present>> CallRoll(const CollectivePlace&, bool newcomer) override {
    return std::vector<Present>{{0, false}, {1, newcomer}};
  }
  absl::Status Run(const CollectiveCall& call, const CollectivePlace&,
                   absl::Span<const std::byte> data, std::vector<std::byte>& result) override {
    result.assign(data.begin(), data.end());
    if (call.op != ReduceOp::kBroadcast) return absl::OkStatus();
    ++broadcasts;
    EXPECT_EQ(call.source, 0u);
    result.resize(call.bytes());
    if (call.dtype == DType::kFloat64) return absl::OkStatus();
    const float half = 0.5f;
    for (size_t i = 0; i < result.size(); i += sizeof(half)) {
      std::memcpy(&result[i], &half, sizeof(half));
    }
    return absl::OkStatus();
  }
  int broadcasts = 0;
};

// It tells the servers nothing.
class Absent final : public GroupUpdates {
 public:
  absl::Status Update(uint32_t, absl::Span<const PushItem> values, absl::Span<const PullItem>,
                      double weight) override {
    EXPECT_EQ(weight, 0);
    for (const PushItem& value : values) EXPECT_EQ(value.data, nullptr);
    return absl::OkStatus();
  }
};

TEST(ALocalOptimizer, OfANewcomerTakesItsValuesFromOneWhoIsNotNew) {
  Settings settings;
  settings.wrapped = [](Optimizer& optimizer) {
    optimizer.local().param_groups()[0].options().set_lr(0);
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(settings, /*replicas=*/2));
  WithAnElder others;
  Absent updates;
  ReplicaStep place;
  place.first_replica = 2;
  place.newcomer = true;
  place.others = &others;
  WEIR_ASSERT_OK(runner->Train(place, {SineImages(3), SineImages(3)}, updates));
  EXPECT_EQ(others.broadcasts, 2);  // one of f32, one of f64
  EXPECT_EQ(WeightsOf(*runner), std::vector<float>(32, 0.5f));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto local, runner->LocalOptimizers());
  EXPECT_FALSE(local.front().told);  // the other has
  place.newcomer = false;
  WEIR_ASSERT_OK(runner->Train(place, {SineImages(3), SineImages(3)}, updates));
  EXPECT_EQ(others.broadcasts, 2);
}

TEST(ALocalOptimizer, IsRefusedByNameWhereItCannotBe) {
  const auto refused = [](const Settings& settings) { return Create(settings).status(); };
  const auto says = [](const std::string& what) {
    return HasStatus(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("lamb"), HasSubstr(what)));
  };
  Settings settings;
  settings.spec = [](v1::JobSpec& spec) { spec.mutable_regime()->set_kind(v1::REGIME_ASYNC); };
  EXPECT_THAT(refused(settings), says("the job's regime is async"));
  settings.spec = [](v1::JobSpec& spec) { spec.mutable_regime()->set_backup_workers(1); };
  EXPECT_THAT(refused(settings), says("1 backup worker"));
  settings.spec = [](v1::JobSpec& spec) {
    v1::Optimizer& optimizer = (*spec.mutable_optimizers())["lamb"];
    optimizer.mutable_learning_rate()->set_base(0.1);
    optimizer.mutable_sgd();
  };
  EXPECT_THAT(refused(settings), says("take it out of the job file"));
  settings = {};
  settings.frozen = true;
  EXPECT_THAT(refused(settings), says("no parameter"));
  settings = {};
  settings.wrapped = [](Optimizer& optimizer) { optimizer.Clip({0, 0, /*push_norm=*/1}); };
  EXPECT_THAT(refused(settings), says("global_norm"));
}

TEST(ALocalOptimizer, DoesNotStepOnAGradientThatIsNotFinite) {
  Settings settings;
  settings.poison = std::numeric_limits<float>::infinity();
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(settings, /*replicas=*/2));
  Values values;
  EXPECT_THAT(runner->Train(ReplicaStep(), {SineImages(3), SineImages(3)}, values),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("'net/bias'")));
  EXPECT_THAT(values.pushed, ElementsAre());
}

TEST(ALocalOptimizer, GivesTheOneThatIsStepped) {
  Settings settings;
  settings.wrapped = [](Optimizer& optimizer) {
    optimizer.local().param_groups()[0].options().set_lr(0);
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(settings));
  const auto first_weight = [&] { return *static_cast<const float*>(runner->Storage()[0].data); };
  const float before = first_weight();
  Values values;
  WEIR_ASSERT_OK(runner->Train(ReplicaStep(), {SineImages(6)}, values));
  EXPECT_EQ(first_weight(), before);
}

}  // namespace
}  // namespace weir
