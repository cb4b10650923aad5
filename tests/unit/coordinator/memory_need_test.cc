// SPDX-License-Identifier: Apache-2.0
#include "coordinator/memory_need.h"

#include <gmock/gmock.h>

#include "server/optimizer/update_rule.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

// The coordinator counts what the server will take without its code.
TEST(MemoryNeed, SlotsAreThoseOfTheServersUpdateRules) {
  std::vector<v1::Optimizer> optimizers;
  for (const double momentum : {0.0, 0.9}) {
    optimizers.emplace_back().mutable_sgd()->set_momentum(momentum);
    for (const bool centered : {false, true}) {
      v1::RmsProp& rmsprop = *optimizers.emplace_back().mutable_rmsprop();
      rmsprop.set_alpha(0.99);
      rmsprop.set_eps(1e-8);
      rmsprop.set_momentum(momentum);
      rmsprop.set_centered(centered);
    }
  }
  optimizers.emplace_back().mutable_average()->set_decay(0.5);
  optimizers.emplace_back().mutable_adagrad()->set_eps(1e-10);
  for (const bool amsgrad : {false, true}) {
    v1::Adam adam;
    adam.set_beta1(0.9);
    adam.set_beta2(0.999);
    adam.set_eps(1e-8);
    adam.set_amsgrad(amsgrad);
    *optimizers.emplace_back().mutable_adam() = adam;
    *optimizers.emplace_back().mutable_adamw() = adam;
  }
  for (v1::Optimizer& optimizer : optimizers) {
    optimizer.mutable_learning_rate()->set_base(0.1);
    WEIR_ASSERT_OK_AND_ASSIGN(const auto rule, UpdateRule::Create(optimizer, v1::DTYPE_F32));
    EXPECT_EQ(SlotsOf(optimizer), rule->num_slots()) << optimizer.DebugString();
  }
}

}  // namespace
}  // namespace weir
