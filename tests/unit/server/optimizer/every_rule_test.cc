// SPDX-License-Identifier: Apache-2.0
// What holds for every optimizer, with every option, in f32 and f64.
#include <cstring>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "server/optimizer/cpu_level.h"
#include "server/optimizer/flush_to_zero.h"
#include "server/optimizer/rules.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/optimizer/optimizers.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace weir {
namespace {

using Bytes = std::vector<std::byte>;

constexpr size_t kElements = 251;  // no multiple of any vector
constexpr int kUpdates = 5;

class EveryRule : public ::testing::TestWithParam<std::tuple<NamedOptimizer, v1::DType>> {
 protected:
  v1::DType dtype() const { return std::get<1>(GetParam()); }
  size_t element_bytes() const { return dtype() == v1::DTYPE_F32 ? 4 : 8; }
  // Slots a little farther apart than their bytes, as the store lays them.
  size_t stride() const { return kElements * element_bytes() + 64; }

  std::unique_ptr<UpdateRule> Rule(CpuLevel level = BestCpuLevel()) const {
    return *CreateRule(std::get<0>(GetParam()).optimizer, dtype(), level);
  }

  Bytes RandomElements(uint32_t seed) const {
    Bytes bytes(kElements * element_bytes());
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    for (size_t i = 0; i < kElements; ++i) {
      const double value = normal(random);
      const float rounded = static_cast<float>(value);
      std::memcpy(bytes.data() + i * element_bytes(),
                  dtype() == v1::DTYPE_F32 ? static_cast<const void*>(&rounded) : &value,
                  element_bytes());
    }
    return bytes;
  }

  struct State {
    Bytes weights;
    Bytes slots;
    bool operator==(const State&) const = default;
  };

  State Initial(const UpdateRule& rule) const {
    State state = {RandomElements(1), Bytes(rule.num_slots() * stride())};
    rule.InitialiseSlots(state.slots.data(), stride(), kElements);
    return state;
  }

  static UpdateContext Context(int update) {
    return {.learning_rate = 0.01 / (1 + update),
            .updates_before = static_cast<uint64_t>(update),
            .gradient_scale = 0.5};
  }
  Bytes Gradient(int update) const { return RandomElements(100 + update); }

  void ApplyInPlace(const UpdateRule& rule, int update, State& state) const {
    const Bytes gradient = Gradient(update);
    rule.Apply(Context(update), gradient.data(), 0, kElements,
               {state.weights.data(), state.weights.data(), state.slots.data(), state.slots.data(),
                stride()});
  }

  State AfterAllUpdates(const UpdateRule& rule) const {
    State state = Initial(rule);
    for (int update = 0; update < kUpdates; ++update) ApplyInPlace(rule, update, state);
    return state;
  }
};

TEST_P(EveryRule, InPlaceEqualsCopyOnWrite) {
  const auto rule = Rule();
  State state = Initial(*rule);
  for (int update = 0; update < kUpdates; ++update) {
    const State before = state;
    State after = {Bytes(state.weights.size()), Bytes(state.slots.size())};
    const Bytes gradient = Gradient(update);
    rule->Apply(Context(update), gradient.data(), 0, kElements,
                {state.weights.data(), after.weights.data(), state.slots.data(), after.slots.data(),
                 stride()});
    EXPECT_EQ(state, before) << "the old version was touched";
    state = after;
  }
  EXPECT_EQ(state, AfterAllUpdates(*rule));
}

TEST_P(EveryRule, EveryCpuLevelGivesTheSameBits) {
  if (BestCpuLevel() == CpuLevel::kBaseline) GTEST_SKIP() << "this machine has the baseline only";
  EXPECT_EQ(AfterAllUpdates(*Rule(CpuLevel::kBaseline)),
            AfterAllUpdates(*Rule(CpuLevel::kX86_64_v3)));
}

TEST_P(EveryRule, AnUnalignedGradientInRunsEqualsAnAlignedWhole) {
  const auto rule = Rule();
  State state = Initial(*rule);
  for (int update = 0; update < kUpdates; ++update) {
    const Bytes gradient = Gradient(update);
    size_t first = 0;
    for (size_t count = 1; first < kElements; first += count, count = count % 40 + 3) {
      count = std::min(count, kElements - first);
      Bytes shifted(count * element_bytes() + 3);
      std::memcpy(shifted.data() + 3, gradient.data() + first * element_bytes(),
                  count * element_bytes());
      rule->Apply(Context(update), shifted.data() + 3, first, count,
                  {state.weights.data(), state.weights.data(), state.slots.data(),
                   state.slots.data(), stride()});
    }
  }
  EXPECT_EQ(state, AfterAllUpdates(*rule));
}

TEST_P(EveryRule, SavedRestoredAndContinuedEqualsUninterrupted) {
  const auto rule = Rule();
  State state = Initial(*rule);
  for (int update = 0; update < 2; ++update) ApplyInPlace(*rule, update, state);
  const State saved = state;
  state = {};

  State restored = saved;
  const auto anew = Rule();
  for (int update = 2; update < kUpdates; ++update) ApplyInPlace(*anew, update, restored);
  EXPECT_EQ(restored, AfterAllUpdates(*rule));
}

TEST_P(EveryRule, AnUpdateOfNoElementsIsLegal) {
  const auto rule = Rule();
  State state = Initial(*rule);
  const State before = state;
  rule->Apply(Context(0), nullptr, kElements, 0,
              {state.weights.data(), state.weights.data(), state.slots.data(), state.slots.data(),
               stride()});
  EXPECT_EQ(state, before);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, EveryRule,
                         ::testing::Combine(::testing::ValuesIn(AllOptimizers()),
                                            ::testing::Values(v1::DTYPE_F32, v1::DTYPE_F64)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name +
                                  (std::get<1>(info.param) == v1::DTYPE_F32 ? "F32" : "F64");
                         });

#if defined(__x86_64__)
TEST(FlushToZero, IsRestored) {
  const unsigned before = _mm_getcsr();
  {
    const FlushToZero flush_to_zero;
    EXPECT_NE(_mm_getcsr(), before);
  }
  EXPECT_EQ(_mm_getcsr(), before);
}

TEST(FlushToZero, ASlotThatDecaysIntoDenormalsBecomesZero) {
  v1::Optimizer optimizer = Sgd();
  optimizer.mutable_sgd()->set_momentum(0.5);
  const auto rule = *UpdateRule::Create(optimizer, v1::DTYPE_F32);
  float weight = 1;
  float buffer = 1.5e-38f;  // half of it is denormal
  const float gradient = 0;
  const unsigned before = _mm_getcsr();
  auto* w = reinterpret_cast<std::byte*>(&weight);
  auto* slot = reinterpret_cast<std::byte*>(&buffer);
  rule->Apply({.learning_rate = 1, .updates_before = 1},
              reinterpret_cast<const std::byte*>(&gradient), 0, 1, {w, w, slot, slot, 4});
  EXPECT_EQ(buffer, 0);
  EXPECT_EQ(_mm_getcsr() & 0xffc0u, before & 0xffc0u);  // but for the sticky flags
}
#endif

}  // namespace
}  // namespace weir
