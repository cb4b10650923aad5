// SPDX-License-Identifier: Apache-2.0
#include "rpc/regime.h"

#include <gmock/gmock.h>

#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

v1::JobSpec Spec(v1::Regime kind, uint32_t workers = 4) {
  v1::JobSpec spec;
  spec.set_workers(workers);
  spec.set_replicas_per_worker(1);
  spec.mutable_regime()->set_kind(kind);
  return spec;
}

auto Refused(const std::string& key, const std::string& why) {
  return HasStatus(absl::StatusCode::kInvalidArgument,
                   ::testing::AllOf(StartsWith(key + ": "), HasSubstr(why)));
}

TEST(Regime, SyncAndAsyncAreFineAsTheyAre) {
  WEIR_EXPECT_OK(CheckRegime(Spec(v1::REGIME_SYNC)));
  WEIR_EXPECT_OK(CheckRegime(Spec(v1::REGIME_ASYNC)));
  EXPECT_THAT(CheckRegime(Spec(v1::REGIME_UNSPECIFIED)), Refused("regime", "sync or async"));
}

TEST(Regime, DeterministicNeedsSync) {
  v1::JobSpec spec = Spec(v1::REGIME_SYNC);
  spec.set_deterministic(true);
  WEIR_EXPECT_OK(CheckRegime(spec));
  spec.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  EXPECT_THAT(CheckRegime(spec), Refused("deterministic", "needs regime: sync"));
}

TEST(Regime, TheRateIsScaledInAsyncAlone) {
  v1::JobSpec spec = Spec(v1::REGIME_ASYNC);
  spec.mutable_regime()->set_learning_rate_scale(v1::RATE_SCALE_WORKERS);
  WEIR_EXPECT_OK(CheckRegime(spec));
  EXPECT_EQ(RegimeText(spec), "async, rate 1/workers");
  spec.mutable_regime()->set_kind(v1::REGIME_SYNC);
  EXPECT_THAT(CheckRegime(spec), Refused("learning_rate_scale", "needs regime: async"));
}

}  // namespace
}  // namespace weir
