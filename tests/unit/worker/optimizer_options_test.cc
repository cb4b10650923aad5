// SPDX-License-Identifier: Apache-2.0
// What a job file says of an optimizer, and what code says: which groups are declared, and what is
// pushed.
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/named_any.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <cmath>
#include <functional>
#include <memory>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/worker/sine_images.h"
#include "weir/replicator.h"
#include "worker/torch_runner.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// m/fc.weight, m/fc.bias, m/bn.weight, m/bn.bias, and what batch norm tracks.
class Net final : public Replica {
 public:
  using Wrap = std::function<Optimizer(ReplicaContext&, torch::nn::Sequential&)>;

  Net(ReplicaContext& context, const Wrap& wrap)
      : net_(context.Add("m", torch::nn::Sequential({{"fc", torch::nn::Linear(16, 3)},
                                                     {"bn", torch::nn::BatchNorm1d(3)}}))),
        sgd_(wrap(context, net_)) {}
  Nest Train(StepContext&, const Nest& batch) override {
    const torch::Tensor output = net_->forward(batch["image"].flatten(1));
    (output - 3).square().sum().backward();
    sgd_.Step();
    return {};
  }

 private:
  torch::nn::Sequential net_;
  Optimizer sgd_;
};

using Settings = std::map<std::string, v1::Optimizer>;

Net::Wrap AllAlike(const GradientClip& clip = {}) {
  return [clip](ReplicaContext& context, torch::nn::Sequential& net) {
    const auto options = torch::optim::SGDOptions(0.1).weight_decay(0.5);
    return context.WrapOptimizer("sgd", net->parameters(), options).Clip(clip);
  };
}

// Batch norm's have options of their own.
Net::Wrap InTwoGroups(const std::shared_ptr<torch::optim::OptimizerOptions>& own) {
  return [own](ReplicaContext& context, torch::nn::Sequential& net) {
    using Group = torch::optim::OptimizerParamGroup;
    const ReplicaContext::ParamGroups groups = {Group(net->ptr(0)->parameters()),
                                                Group(net->ptr(1)->parameters(), own->clone())};
    const auto options = torch::optim::SGDOptions(0.1).weight_decay(0.5);
    return context.WrapOptimizer("sgd", groups, options);
  };
}

absl::StatusOr<std::unique_ptr<ReplicaRunner>> Create(const Settings& settings,
                                                      const Net::Wrap& wrap = AllAlike()) {
  ModelRegistry models;
  models.Add(
      "net",
      {[wrap](ReplicaContext& context) { return std::make_unique<Net>(context, wrap); }, nullptr});
  TorchRunnerOptions options;
  options.spec.mutable_model()->set_builtin("net");
  options.spec.set_seed(7);
  for (const auto& [name, optimizer] : settings) {
    (*options.spec.mutable_optimizers())[name] = optimizer;
  }
  options.height = options.width = 4;
  return CreateTorchRunner(models, options);
}

v1::Optimizer FromJob(const std::vector<std::string>& no_decay = {}) {
  v1::Optimizer optimizer;
  optimizer.mutable_learning_rate()->set_base(0.2);
  optimizer.mutable_sgd()->set_weight_decay(0.25);
  for (const std::string& pattern : no_decay) optimizer.add_no_decay(pattern);
  return optimizer;
}

// Notes what comes, and updates nothing.
class Pushes final : public GroupUpdates {
 public:
  absl::Status Update(uint32_t group, absl::Span<const PushItem> gradients,
                      absl::Span<const PullItem>, double) override {
    for (const PushItem& gradient : gradients) {
      variables[group].push_back(gradient.variable);
      const auto* values = static_cast<const float*>(gradient.data);
      for (size_t i = 0; i < gradient.bytes / sizeof(float); ++i) {
        squares += static_cast<double>(values[i]) * values[i];
      }
    }
    return absl::OkStatus();
  }
  std::map<uint32_t, std::vector<size_t>> variables;  // by group
  double squares = 0;
};

double NormOfAPush(const Settings& settings, const GradientClip& clip) {
  const auto runner = Create(settings, AllAlike(clip));
  EXPECT_THAT(runner, IsOk());
  Pushes pushes;
  WEIR_EXPECT_OK((*runner)->Train(ReplicaStep(), {SineImages(6)}, pushes));
  return std::sqrt(pushes.squares);
}

TEST(OptimizerOptions, AreTheCodesWhereTheJobSaysNothing) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create({}));
  const Declaration& declaration = runner->declaration();
  ASSERT_EQ(declaration.groups.size(), 1u);
  EXPECT_EQ(declaration.groups[0].learning_rate.base, 0.1);
  EXPECT_EQ(std::get<Sgd>(declaration.groups[0].optimizer).weight_decay, 0.5);
}

TEST(OptimizerOptions, ThatDoNotDecayAreAGroupOfTheirOwn) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create({{"sgd", FromJob({"bias", "b?"})}}));
  const Declaration& declaration = runner->declaration();
  ASSERT_EQ(declaration.groups.size(), 2u);
  EXPECT_EQ(declaration.groups[0].name, "sgd");
  EXPECT_EQ(std::get<Sgd>(declaration.groups[0].optimizer).weight_decay, 0.25);
  EXPECT_EQ(declaration.groups[1].name, "sgd/no_decay");
  EXPECT_EQ(std::get<Sgd>(declaration.groups[1].optimizer).weight_decay, 0);
  EXPECT_EQ(declaration.groups[1].learning_rate.base, 0.2);
  std::map<std::string, uint32_t> groups;
  for (const VariableSpec& variable : declaration.variables) groups[variable.name] = variable.group;
  EXPECT_EQ(groups["m/fc.weight"], 1u);
  EXPECT_EQ(groups["m/fc.bias"], 2u);
  EXPECT_EQ(groups["m/bn.weight"], 2u);
  EXPECT_EQ(groups["m/bn.bias"], 2u);

  Pushes pushes;
  WEIR_ASSERT_OK(runner->Train(ReplicaStep(), {SineImages(6)}, pushes));
  EXPECT_THAT(pushes.variables[1], ElementsAre(0));
  EXPECT_THAT(pushes.variables[2], ElementsAre(1, 2, 3));
}

std::string TextOf(const OptimizerGroup& group) {
  return absl::StrCat(group.name, ": ", group.learning_rate.base, ", ",
                      std::get<Sgd>(group.optimizer).weight_decay);
}

TEST(OptimizerOptions, OfAParameterGroupAreItsOwnAndComeBeforeTheJobs) {
  const auto own = std::make_shared<torch::optim::SGDOptions>(0.01);
  own->weight_decay(0.125);
  const auto declared = [&](const Settings& settings) {
    const auto runner = Create(settings, InTwoGroups(own));
    EXPECT_THAT(runner, IsOk());
    std::vector<std::string> groups;
    for (const OptimizerGroup& group : (*runner)->declaration().groups) {
      groups.push_back(TextOf(group));
    }
    for (const VariableSpec& variable : (*runner)->declaration().variables) {
      if (variable.group == 0) continue;
      groups.push_back(absl::StrCat(variable.name, " ", variable.group));
    }
    return groups;
  };
  EXPECT_THAT(declared({}), ElementsAre("sgd: 0.1, 0.5", "sgd/1: 0.01, 0.125", "m/fc.weight 1",
                                        "m/fc.bias 1", "m/bn.weight 2", "m/bn.bias 2"));
  EXPECT_THAT(declared({{"sgd", FromJob({"bias"})}}),
              ElementsAre("sgd: 0.2, 0.25", "sgd/no_decay: 0.2, 0", "sgd/1: 0.01, 0.125",
                          "sgd/1/no_decay: 0.01, 0", "m/fc.weight 1", "m/fc.bias 2",
                          "m/bn.weight 3", "m/bn.bias 4"));
}

TEST(OptimizerOptions, OfAParameterGroupAreRefusedWhereTheyAreOfAnotherClass) {
  const auto adam = std::make_shared<torch::optim::AdamOptions>(0.01);
  EXPECT_THAT(Create({}, InTwoGroups(adam)).status(),
              HasStatus(absl::StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("optimizer \"sgd\""), HasSubstr("parameter group 1"))));
}

TEST(OptimizerOptions, OfAParameterThatHasAnOptimizerAreRefusedByItsName) {
  const Net::Wrap twice = [](ReplicaContext& context, torch::nn::Sequential& net) {
    const torch::optim::SGDOptions options(0.1);
    context.WrapOptimizer("sgd", net->parameters(), options);
    return context.WrapOptimizer("other", net->ptr(1)->parameters(), options);
  };
  EXPECT_THAT(Create({}, twice).status(),
              HasStatus(absl::StatusCode::kInvalidArgument,
                        HasSubstr("m/bn.weight has an optimizer already")));
}

TEST(OptimizerOptions, NameOnlyWhatThereIs) {
  EXPECT_THAT(Create({{"sgd", FromJob({"bias", "biass"})}}).status(),
              HasStatus(absl::StatusCode::kInvalidArgument,
                        "optimizers.sgd.no_decay: \"biass\" is like no parameter of this "
                        "optimizer"));
  EXPECT_THAT(Create({{"adam", FromJob()}}).status(),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("it has sgd")));
}

TEST(OptimizerOptions, ClipWhatIsPushed) {
  EXPECT_GT(NormOfAPush({}, {}), 1);
  for (const bool of_push : {false, true}) {
    GradientClip clip;
    (of_push ? clip.push_norm : clip.global_norm) = 0.5;
    EXPECT_NEAR(NormOfAPush({}, clip), 0.5, 1e-5);
  }
}

TEST(OptimizerOptions, OfTheJobComeBeforeTheCodes) {
  v1::Optimizer from_job = FromJob({"bias"});
  from_job.mutable_clip()->set_global_norm(0.25);
  GradientClip from_code;
  from_code.value = 1;
  EXPECT_NEAR(NormOfAPush({{"sgd", from_job}}, from_code), 0.25, 1e-5);
}

}  // namespace
}  // namespace weir
