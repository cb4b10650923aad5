// SPDX-License-Identifier: Apache-2.0
// Clipping, against what LibTorch does to the gradients of the joined batch.
#include "worker/gradient_clip.h"

#include <gmock/gmock.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>

#include "tests/support/replica_steps.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

const std::vector<double> kWeights = {3, 5};

std::vector<torch::Tensor> Parameters() {
  return {torch::zeros({2, 3}), torch::zeros({4}, torch::kFloat64), torch::zeros({2}),
          torch::zeros({3})};
}

// Of each replica. The third is absent on both, the fourth on one.
std::vector<Gradients> GradientsOfReplicas() {
  torch::manual_seed(5);
  std::vector<Gradients> all;
  for (size_t i = 0; i < kWeights.size(); ++i) {
    all.push_back({torch::randn({2, 3}), torch::randn({4}, torch::kFloat64), torch::Tensor(),
                   i == 0 ? torch::Tensor() : torch::randn({3})});
  }
  return all;
}

// Of one process with the joined batch: in the parameters' grad.
std::vector<torch::Tensor> JoinedGradients() {
  const auto all = GradientsOfReplicas();
  std::vector<torch::Tensor> parameters = Parameters();
  for (size_t p = 0; p < parameters.size(); ++p) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (!all[i][p].defined()) continue;
      const torch::Tensor part = all[i][p] * (kWeights[i] / 8);
      torch::Tensor& gradient = parameters[p].mutable_grad();
      gradient = gradient.defined() ? gradient + part : part;
    }
  }
  return parameters;
}

Gradients GradsOf(const std::vector<torch::Tensor>& parameters) {
  Gradients gradients;
  for (const torch::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
  return gradients;
}

void ExpectClose(const Gradients& actual, const Gradients& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].defined(), expected[i].defined()) << i;
    if (!actual[i].defined()) continue;
    EXPECT_TRUE(torch::allclose(actual[i], expected[i], 1e-5, 1e-7)) << actual[i] << expected[i];
  }
}

// What each replica hands over.
std::vector<Gradients> ClippedOnReplicas(const GradientClip& clip) {
  const auto given = GradientsOfReplicas();
  std::vector<Gradients> clipped(given.size());
  const auto ends = RunStepOfReplicas(kWeights, [&](StepParts& parts, size_t i) {
    clipped[i] = ClippedMean(parts, "adam", clip, Parameters(), given[i]);
  });
  EXPECT_THAT(ends, Each(IsOk()));
  return clipped;
}

TEST(GradientClip, ByGlobalNormIsLibTorchsOfTheJoinedBatch) {
  auto joined = JoinedGradients();
  GradientClip clip;
  clip.global_norm = 0.5;
  EXPECT_GT(torch::nn::utils::clip_grad_norm_(joined, clip.global_norm), 0.5);
  for (const Gradients& gradients : ClippedOnReplicas(clip)) {
    ExpectClose(gradients, GradsOf(joined));
  }
}

TEST(GradientClip, ByGlobalNormLeavesWhatIsShortEnough) {
  GradientClip clip;
  clip.global_norm = 100;
  for (const Gradients& gradients : ClippedOnReplicas(clip)) {
    ExpectClose(gradients, GradsOf(JoinedGradients()));
  }
}

TEST(GradientClip, ByValueIsLibTorchsOfTheJoinedBatch) {
  auto joined = JoinedGradients();
  GradientClip clip;
  clip.value = 0.25;
  torch::nn::utils::clip_grad_value_(joined, clip.value);
  for (const Gradients& gradients : ClippedOnReplicas(clip)) {
    ExpectClose(gradients, GradsOf(joined));
  }
}

TEST(GradientClip, NotAskedForChangesNothingAndSaysNothingToOthers) {
  const auto given = GradientsOfReplicas();
  const auto ends = RunStepOfReplicas(kWeights, [&](StepParts& parts, size_t i) {
    ExpectClose(ClippedMean(parts, "adam", {}, Parameters(), given[i]), given[i]);
    EXPECT_EQ(parts.collectives_called, 0u);
  });
  EXPECT_THAT(ends, Each(IsOk()));
}

TEST(GradientClip, LeavesWhatThePassedTensorsHold) {
  Gradients gradients = {torch::full({2}, 3.0), torch::full({2}, 4.0)};
  const Gradients before = gradients;
  ClipNorm(1, gradients);
  EXPECT_EQ(before[0][0].item<float>(), 3);
  EXPECT_NEAR(gradients[0][0].item<float>(), 3 / std::sqrt(50.0), 1e-6);
}

// So that the push refuses it and names the parameter.
TEST(GradientClip, KeepsWhatIsNotFinite) {
  Gradients gradients = {torch::full({1}, std::numeric_limits<float>::infinity()),
                         torch::full({1}, 1.0)};
  ClipNorm(1, gradients);
  EXPECT_FALSE(std::isfinite(gradients[0].item<float>()));
}

TEST(GradientClip, RefusesLimitsThatAreNone) {
  const auto error_of = [](const GradientClip& clip) {
    try {
      CheckClip("adam", clip);
      return absl::OkStatus();
    } catch (const StepError& error) {
      return error.status();
    }
  };
  GradientClip clip;
  WEIR_EXPECT_OK(error_of(clip));
  clip.value = -1;
  EXPECT_THAT(error_of(clip), HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("not -1")));
  clip.value = 1;
  clip.push_norm = 1;
  EXPECT_THAT(error_of(clip),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("not by several")));
}

}  // namespace
}  // namespace weir
