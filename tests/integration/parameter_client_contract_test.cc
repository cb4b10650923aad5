// SPDX-License-Identifier: Apache-2.0
// What every ParameterClient promises to a job's only worker: over an object in this process, over
// one and three server objects, and over gRPC.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "rpc/errors.h"
#include "tests/support/client_kind.h"
#include "tests/support/client_values.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

class ParameterClientContract : public ::testing::TestWithParam<ClientKind> {
 protected:
  // Declares the job and makes its worker ready for Assign.
  void Open(const Declaration& declaration, v1::Regime regime = v1::REGIME_ASYNC,
            uint64_t shard_bytes = 0) {
    declaration_ = declaration;
    if (GetParam() == ClientKind::kEmbedded) {
      LocalJobOptions options;
      options.spec.mutable_regime()->set_kind(regime);
      options.spec.set_shard_bytes(shard_bytes);
      WEIR_ASSERT_OK_AND_ASSIGN(local_, OpenEmbedded(options, declaration));
      return;
    }
    HandMadeJob::Options options = ServedBy(GetParam(), declaration);
    options.regime = regime;
    options.shard_bytes = shard_bytes;
    job_ = std::make_unique<HandMadeJob>(options);
  }

  ParameterClient& client() { return job_ != nullptr ? job_->client(0) : *local_.parameters; }

  void Initialise(const Values& values) {
    WEIR_ASSERT_OK(client().Assign(PushItems(values)));
    if (job_ != nullptr) {
      job_->Run();
    } else {
      WEIR_ASSERT_OK(local_.session->ReportInitialised());
    }
  }

  void Open(const Declaration& declaration, const Values& values) {
    Open(declaration);
    Initialise(values);
  }

  Values Weights() { return PullAll(client(), declaration_); }

  absl::StatusOr<PushStats> Push(const Values& gradients, uint64_t step = 0) {
    PushOptions options;
    options.step = step;
    options.group_step = step;
    options.examples = 1;
    options.timeout = absl::Seconds(30);
    return client().Push(PushItems(gradients), options);
  }

  Declaration declaration_;
  Job local_;
  std::unique_ptr<HandMadeJob> job_;
};

// First steps by hand, from w = 1 with g = 2 and a rate of 0.1.
TEST_P(ParameterClientContract, PushThenPullEqualsTheOptimizerByHand) {
  Declaration declaration = SgdOver({1, 1, 1, 1, 1});
  declaration.groups.clear();
  const auto add = [&](const char* name, auto optimizer) {
    OptimizerGroup group;
    group.name = name;
    group.learning_rate.base = 0.1;
    group.optimizer = optimizer;
    declaration.groups.push_back(group);
    declaration.variables[declaration.groups.size() - 1].group =
        static_cast<uint32_t>(declaration.groups.size());
  };
  add("sgd", Sgd{});                         // 1 - 0.1 * 2
  add("adagrad", Adagrad{});                 // 1 - 0.1 * 2 / sqrt(4)
  add("rmsprop", RmsProp{.alpha = 0.75});    // 1 - 0.1 * 2 / sqrt(0.25 * 4)
  add("adam", Adam{});                       // 1 - 0.1 * 2 / sqrt(4), both moments corrected
  add("adamw", AdamW{.weight_decay = 0.5});  // 1 * (1 - 0.1 * 0.5) - 0.1
  Open(declaration, {{1}, {1}, {1}, {1}, {1}});
  const float gradient = 2;
  for (uint32_t group = 1; group <= 5; ++group) {
    PushOptions options;
    options.group = group;
    options.examples = 1;
    WEIR_ASSERT_OK(client().Push({PushItem{group - 1, &gradient, 4}}, options));
  }
  const Values weights = Weights();
  EXPECT_THAT(weights[0], ElementsAre(FloatNear(0.8f, 1e-6f)));
  EXPECT_THAT(weights[1], ElementsAre(FloatNear(0.9f, 1e-6f)));
  EXPECT_THAT(weights[2], ElementsAre(FloatNear(0.8f, 1e-6f)));
  EXPECT_THAT(weights[3], ElementsAre(FloatNear(0.9f, 1e-6f)));
  EXPECT_THAT(weights[4], ElementsAre(FloatNear(0.85f, 1e-6f)));
}

TEST_P(ParameterClientContract, AssignedValuesArePulled) {
  Open(SgdOver({3, 2}), {{1, 2, 3}, {4, 5}});
  EXPECT_THAT(Weights(), ElementsAre(ElementsAre(1, 2, 3), ElementsAre(4, 5)));
}

TEST_P(ParameterClientContract, WhatIsNotInitialisedIsNotServed) {
  Open(SgdOver({1}));
  float into = 7;
  PullOptions options;
  options.timeout = absl::Milliseconds(200);
  EXPECT_THAT(client().Pull({PullItem{0, &into, 4}}, options),
              HasStatus(absl::StatusCode::kDeadlineExceeded,
                        AllOf(HasSubstr("'v0'"), HasSubstr("expected from"))));
  EXPECT_EQ(into, 7);
}

TEST_P(ParameterClientContract, PushPullBringsTheNewWeights) {
  Open(SgdOver({3, 2}), {{1, 2, 3}, {4, 5}});
  const Values gradients = {{1, 1, 1}, {2, 2}};
  Values into = {{0, 0, 0}, {0, 0}};
  PushOptions options;
  options.examples = 1;
  WEIR_ASSERT_OK(client().PushPull(PushItems(gradients), PullItems(into), options));
  EXPECT_THAT(into, ElementsAre(ElementsAre(0, 1, 2), ElementsAre(2, 3)));
}

TEST_P(ParameterClientContract, PushPullBringsEveryWantedVariable) {
  Declaration declaration = SgdOver({1, 1, 1});
  declaration.variables[2].group = 0;
  Open(declaration, {{1}, {2}, {3}});
  const float gradient = 1;
  Values into = {{0}, {0}, {0}};
  // One has a gradient, one is absent, and one is state.
  WEIR_ASSERT_OK(client().PushPull({PushItem{0, &gradient, 4}}, PullItems(into), {}));
  EXPECT_THAT(into, ElementsAre(ElementsAre(0), ElementsAre(2), ElementsAre(3)));
  // Again, into other memory, where nothing has changed for two of them.
  PushOptions second;
  second.step = second.group_step = 1;
  Values elsewhere = {{0}, {0}, {0}};
  WEIR_ASSERT_OK(client().PushPull({PushItem{0, &gradient, 4}}, PullItems(elsewhere), second));
  EXPECT_THAT(elsewhere, ElementsAre(ElementsAre(-1), ElementsAre(2), ElementsAre(3)));
}

TEST_P(ParameterClientContract, TwoPushesMayBeUnderWay) {
  Open(SgdOver({1000}), {std::vector<float>(1000, 0)});
  const Values gradients(1, std::vector<float>(1000, 1));
  Values first(1, std::vector<float>(1000));
  Values second = first;
  PushOptions options;
  options.examples = 1;
  auto one = client().StartPushPull(PushItems(gradients), PullItems(first), options);
  options.step = options.group_step = 1;
  auto two = client().StartPushPull(PushItems(gradients), PullItems(second), options);
  WEIR_ASSERT_OK(one->Wait());
  WEIR_ASSERT_OK(two->Wait());
  EXPECT_THAT(Weights()[0], Each(-2));
}

TEST_P(ParameterClientContract, AbsentVariablesStayAsTheyAre) {
  Open(SgdOver({2, 2}), {{1, 1}, {1, 1}});
  const std::vector<float> gradient = {1, 2};
  WEIR_ASSERT_OK(client().Push({PushItem{1, gradient.data(), 8}}, {}));
  EXPECT_THAT(Weights(), ElementsAre(ElementsAre(1, 1), ElementsAre(0, -1)));
}

TEST_P(ParameterClientContract, NotFiniteGradientChangesNothingAndIsNamed) {
  Open(SgdOver({2, 2}), {{1, 1}, {1, 1}});
  const absl::Status status =
      Push({{1, 1}, {1, std::numeric_limits<float>::quiet_NaN()}}, 3).status();
  EXPECT_TRUE(IsNotFinite(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("'v1'"), HasSubstr("element 1"), HasSubstr("step 3")));
  EXPECT_THAT(Weights(), Each(Each(1)));
}

TEST_P(ParameterClientContract, WrongSizeOrVariableChangesNothingAndIsNamed) {
  Open(SgdOver({2, 2}), {{1, 1}, {1, 1}});
  EXPECT_THAT(Push({{1, 1}, {1, 1, 1}}),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("'v1'")));
  EXPECT_THAT(Push({{1, 1}, {1, 1}, {1, 1}}),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("variable 2 is unknown")));
  EXPECT_THAT(Weights(), Each(Each(1)));
  WEIR_EXPECT_OK(Push({{1, 1}, {1, 1}}));
  EXPECT_THAT(Weights(), Each(Each(0)));
}

TEST_P(ParameterClientContract, VariablesWithoutElementsAreOrdinary) {
  Open(SgdOver({0, 2, 0}), {{}, {1, 1}, {}});
  WEIR_ASSERT_OK(Push({{}, {1, 1}, {}}));
  EXPECT_THAT(Weights(), ElementsAre(ElementsAre(), ElementsAre(0, 0), ElementsAre()));
}

TEST_P(ParameterClientContract, JobWithoutElementsIsOrdinary) {
  Open(SgdOver({0}), {{}});
  WEIR_ASSERT_OK(Push({{}}));
  WEIR_ASSERT_OK(Push({{}}, 1));
  EXPECT_THAT(Weights(), ElementsAre(ElementsAre()));
}

TEST_P(ParameterClientContract, AThousandSmallVariablesAreRight) {
  Declaration declaration = SgdOver(std::vector<uint64_t>(1000, 3));
  Values values;
  for (int i = 0; i < 1000; ++i) values.push_back(std::vector<float>(3, static_cast<float>(i)));
  Open(declaration, values);
  WEIR_ASSERT_OK(Push(Values(1000, std::vector<float>(3, 1))));
  const Values weights = Weights();
  for (int i = 0; i < 1000; ++i) EXPECT_THAT(weights[i], Each(i - 1));
}

TEST_P(ParameterClientContract, LargeVariableIsRightInEveryElement) {
  constexpr size_t kElements =
      3'000'001;  // 12 MB: several shards, many messages, more than the credit
  Values values(1, std::vector<float>(kElements));
  std::iota(values[0].begin(), values[0].end(), 0.0f);
  Open(SgdOver({kElements}), values);
  Values gradients(1, std::vector<float>(kElements));
  for (size_t i = 0; i < kElements; ++i) gradients[0][i] = static_cast<float>(i % 1024);
  WEIR_ASSERT_OK(Push(gradients));
  const Values weights = Weights();
  for (size_t i = 0; i < kElements; ++i) {
    ASSERT_EQ(weights[0][i], static_cast<float>(i) - static_cast<float>(i % 1024)) << i;
  }
}

TEST_P(ParameterClientContract, EveryDtypeKeepsItsBits) {
  Declaration declaration = SgdOver({1});
  declaration.variables.push_back({"f64", DType::kFloat64, {2}, 1, Aggregation::kDefault});
  declaration.variables.push_back({"i32", DType::kInt32, {2}, 0, Aggregation::kLastWrite});
  declaration.variables.push_back({"i64", DType::kInt64, {2}, 0, Aggregation::kLastWrite});
  declaration.variables.push_back({"bool", DType::kBool, {3}, 0, Aggregation::kLastWrite});
  Open(declaration);
  const float f32 = 1.5f;
  const double f64[2] = {1.0 + 1e-15, -0.0};
  const int32_t i32[2] = {(1 << 24) + 1, -1};
  const int64_t i64[2] = {(int64_t{1} << 53) + 1, std::numeric_limits<int64_t>::min()};
  const bool flags[3] = {true, false, true};
  WEIR_ASSERT_OK(client().Assign(
      {PushItem{0, &f32, 4}, {1, f64, 16}, {2, i32, 8}, {3, i64, 16}, {4, flags, 3}}));
  float f32_back = 0;
  double f64_back[2] = {};
  int32_t i32_back[2] = {};
  int64_t i64_back[2] = {};
  bool flags_back[3] = {};
  WEIR_ASSERT_OK(client().Pull({PullItem{0, &f32_back, 4},
                                {1, f64_back, 16},
                                {2, i32_back, 8},
                                {3, i64_back, 16},
                                {4, flags_back, 3}},
                               {}));
  EXPECT_EQ(f32_back, 1.5f);
  EXPECT_EQ(f64_back[0], 1.0 + 1e-15);
  EXPECT_TRUE(std::signbit(f64_back[1]));
  EXPECT_THAT(i32_back, ElementsAre(i32[0], i32[1]));
  EXPECT_THAT(i64_back, ElementsAre(i64[0], i64[1]));
  EXPECT_THAT(flags_back, ElementsAre(true, false, true));
}

TEST_P(ParameterClientContract, StateIsWrittenByPushesOfGroupZero) {
  Declaration declaration = SgdOver({2, 2});
  declaration.variables[1].group = 0;
  Open(declaration, {{1, 1}, {1, 1}});
  const std::vector<float> state = {5, 6};
  PushOptions options;
  options.group = 0;
  WEIR_ASSERT_OK(client().Push({PushItem{1, state.data(), 8}}, options));
  EXPECT_THAT(Weights(), ElementsAre(ElementsAre(1, 1), ElementsAre(5, 6)));
}

TEST_P(ParameterClientContract, InitialValuesAreTakenWhileTheyAreExpectedOnly) {
  Open(SgdOver({1}), {{1}});
  EXPECT_THAT(client().Assign(PushItems({{9}})),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("initial values")));
  EXPECT_THAT(Weights(), ElementsAre(ElementsAre(1)));
}

TEST_P(ParameterClientContract, SyncWithOneWorkerEqualsAsyncBitForBit) {
  const auto run = [&](v1::Regime regime) {
    Declaration declaration = SgdOver({1000});
    declaration.groups[0].optimizer = Adam{};
    declaration.groups[0].learning_rate = {0.1, 50, Schedule::Cosine{1000, 0.001}};
    job_.reset();
    local_.parameters.reset();
    local_.session.reset();
    Open(declaration, regime);
    Initialise({std::vector<float>(1000, 0.5f)});
    Values gradients(1, std::vector<float>(1000));
    Values into(1, std::vector<float>(1000));
    for (uint64_t step = 0; step < 20; ++step) {
      for (size_t i = 0; i < 1000; ++i) {
        gradients[0][i] = static_cast<float>((i * 37 + step * 11) % 101) / 50.0f - 1.0f;
      }
      PushOptions options;
      options.step = options.group_step = step;
      options.examples = 32;
      WEIR_EXPECT_OK(client().PushPull(PushItems(gradients), PullItems(into), options));
    }
    return into;
  };
  EXPECT_EQ(run(v1::REGIME_SYNC), run(v1::REGIME_ASYNC));
}

INSTANTIATE_TEST_SUITE_P(EveryClient, ParameterClientContract, EveryClient(), NameOfKind);

}  // namespace
}  // namespace weir
