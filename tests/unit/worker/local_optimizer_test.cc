// SPDX-License-Identifier: Apache-2.0
// Optimizers of any class, and what of them can be saved.
#include "worker/local_optimizer.h"

#include <gmock/gmock.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <functional>

#include "tests/support/lamb.h"
#include "tests/support/status_matchers.h"
#include "worker/libtorch_names.h"
#include "worker/torch_replica.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Tensors = std::vector<torch::Tensor>;
using Make = std::function<std::unique_ptr<torch::optim::Optimizer>(const Tensors&)>;

template <typename Class, typename Options>
Make Of(const Options& options) {
  return
      [options](const Tensors& parameters) { return std::make_unique<Class>(parameters, options); };
}

struct NamedOptimizer {
  std::string name;
  Make make;
};

std::vector<NamedOptimizer> AllOptimizers() {
  using namespace torch::optim;  // NOLINT: many names
  return {{"Sgd", Of<SGD>(SGDOptions(0.1))},
          {"Momentum", Of<SGD>(SGDOptions(0.1).momentum(0.9).nesterov(true))},
          {"Adam", Of<torch::optim::Adam>(AdamOptions(0.01).amsgrad(true))},
          {"AdamW", Of<torch::optim::AdamW>(AdamWOptions(0.01))},
          {"Adagrad", Of<torch::optim::Adagrad>(AdagradOptions(0.1).initial_accumulator_value(1))},
          {"RmsProp", Of<RMSprop>(RMSpropOptions(0.01).momentum(0.5).centered(true))},
          {"Lamb", Of<Lamb>(LambOptions(0.1))}};
}

Tensors Weights() {
  return {torch::arange(6, torch::kFloat32).view({2, 3}).div_(7).set_requires_grad(true),
          torch::ones({3}, torch::kFloat64).set_requires_grad(true)};
}

// Of step `step`; none for the second parameter in step 1.
Gradients GradientsOf(int step) {
  return {torch::cos(torch::arange(6, torch::kFloat32).view({2, 3}) * (step + 1)),
          step == 1 ? torch::Tensor() : torch::sin(torch::arange(3, torch::kFloat64) * (step + 1))};
}

void ExpectEqual(const Tensors& a, const Tensors& b) {
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << i;
}

class EveryLocalOptimizer : public testing::TestWithParam<NamedOptimizer> {
 protected:
  LocalOptimizer Wrapped(const Tensors& weights) {
    return LocalOptimizer("own", GetParam().make(weights), {"m/w", "m/v"});
  }
};

TEST_P(EveryLocalOptimizer, StepsAsItDoesAlone) {
  const Tensors weights = Weights();
  LocalOptimizer wrapped = Wrapped(weights);
  ExpectEqual(weights, Weights());
  const Tensors alone = Weights();
  const auto optimizer = GetParam().make(alone);
  for (int step = 0; step < 4; ++step) {
    wrapped.Step(GradientsOf(step));
    for (size_t i = 0; i < alone.size(); ++i) {
      torch::Tensor parameter = alone[i];
      parameter.mutable_grad() = GradientsOf(step)[i];
    }
    optimizer->step();
    ExpectEqual(weights, alone);
  }
  // The comparison can fail.
  EXPECT_FALSE(weights[0].equal(Weights()[0]));
}

TEST_P(EveryLocalOptimizer, SavedRestoredAndContinuedEqualsUninterrupted) {
  for (const int saved_at : {0, 1, 2}) {
    const Tensors whole = Weights();
    LocalOptimizer uninterrupted = Wrapped(whole);
    const Tensors first = Weights();
    LocalOptimizer before = Wrapped(first);
    for (int step = 0; step < saved_at; ++step) {
      uninterrupted.Step(GradientsOf(step));
      before.Step(GradientsOf(step));
    }
    before.Save();
    const Tensors second = Weights();
    LocalOptimizer after = Wrapped(second);
    {
      const torch::NoGradGuard without_gradients;
      for (size_t i = 0; i < first.size(); ++i) second[i].detach().copy_(first[i]);
      ASSERT_EQ(after.kept().size(), before.kept().size());
      for (const auto& [name, tensor] : after.kept()) tensor.copy_(before.kept().at(name));
    }
    after.NoteWritten();
    for (int step = saved_at; step < 5; ++step) {
      uninterrupted.Step(GradientsOf(step));
      after.Step(GradientsOf(step));
    }
    ExpectEqual(second, whole);
  }
}

INSTANTIATE_TEST_SUITE_P(Classes, EveryLocalOptimizer, testing::ValuesIn(AllOptimizers()),
                         [](const auto& info) { return info.param.name; });

TEST(LocalOptimizer, KeepsItsStateUnderTheNamesOfItsParameters) {
  const Tensors weights = Weights();
  const LocalOptimizer lamb("lamb", std::make_unique<Lamb>(weights), {"m/w", "m/v"});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : lamb.kept()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("m/v/mean", "m/v/square", "m/w/mean", "m/w/square", "numbers"));
  EXPECT_EQ(lamb.kept().at("m/w/mean").sizes(), weights[0].sizes());
  EXPECT_EQ(lamb.kept().at("m/v/mean").scalar_type(), torch::kFloat64);
}

absl::Status Refusal(const Make& make) {
  return CatchErrors("wrapping", [&] { LocalOptimizer("own", make(Weights()), {"m/w", "m/v"}); });
}

// Its state says nothing of how it serialises.
struct SilentState : public torch::optim::OptimizerCloneableParamState<SilentState> {};
class Silent final : public torch::optim::Optimizer {
 public:
  Silent(const Tensors& parameters, bool of_parameters)
      : Optimizer(parameters, std::make_unique<LambOptions>()), of_parameters_(of_parameters) {}
  torch::Tensor step(LossClosure = nullptr) override {
    const OptimizerStateKey key = StateKeyOf(param_groups_[0].params()[0]);
    state_[of_parameters_ ? key : OptimizerStateKey()] = std::make_unique<SilentState>();
    return {};
  }

 private:
  const bool of_parameters_;
};

TEST(LocalOptimizer, WhoseStateCannotBeSavedIsRefusedByName) {
  EXPECT_THAT(Refusal(Of<torch::optim::LBFGS>(torch::optim::LBFGSOptions())),
              HasStatus(absl::StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("optimizer \"own\""), HasSubstr("closure"))));
  EXPECT_THAT(Refusal(Of<Silent>(true)),
              HasStatus(absl::StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("optimizer \"own\""), HasSubstr("serialise"))));
  EXPECT_THAT(Refusal(Of<Silent>(false)),
              HasStatus(absl::StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("optimizer \"own\""), HasSubstr("none of its"))));
}

}  // namespace
}  // namespace weir
