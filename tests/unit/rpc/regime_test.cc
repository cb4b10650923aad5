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
  EXPECT_THAT(CheckRegime(Spec(v1::REGIME_UNSPECIFIED)), Refused("regime", "expected sync, async"));
}

TEST(Regime, DeterministicNeedsSync) {
  v1::JobSpec spec = Spec(v1::REGIME_SYNC);
  spec.set_deterministic(true);
  WEIR_EXPECT_OK(CheckRegime(spec));
  spec.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  EXPECT_THAT(CheckRegime(spec), Refused("deterministic", "needs regime: sync"));
}

TEST(Regime, ABoundOfStalenessIsAStepOrMore) {
  v1::JobSpec spec = Spec(v1::REGIME_BOUNDED_STALENESS);
  EXPECT_THAT(CheckRegime(spec), Refused("regime", "or sync for 0"));
  spec.mutable_regime()->set_bounded_staleness(3);
  WEIR_EXPECT_OK(CheckRegime(spec));
  EXPECT_EQ(RegimeText(spec), "bounded_staleness 3");
  EXPECT_FALSE(IsSync(spec));
  spec.set_deterministic(true);
  EXPECT_THAT(CheckRegime(spec), Refused("deterministic", "needs regime: sync"));
  spec.set_deterministic(false);
  spec.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  EXPECT_THAT(CheckRegime(spec), Refused("regime", "a regime of its own"));
}

TEST(Regime, SyncGroupsDivideTheReplicasAndKeepProcessesWhole) {
  v1::JobSpec spec = Spec(v1::REGIME_SYNC_GROUPS, 4);
  EXPECT_THAT(CheckRegime(spec), Refused("regime", "sync_group_size is 0"));
  spec.mutable_regime()->set_sync_group_size(2);
  WEIR_EXPECT_OK(CheckRegime(spec));
  EXPECT_EQ(RegimeText(spec), "sync_group_size 2");
  EXPECT_EQ(SyncGroups(spec), 2u);
  EXPECT_FALSE(IsSync(spec));
  spec.mutable_regime()->set_sync_group_size(3);
  EXPECT_THAT(CheckRegime(spec), Refused("regime", "does not divide the 4 replicas"));
  spec.mutable_regime()->set_sync_group_size(4);
  EXPECT_THAT(CheckRegime(spec), Refused("regime", "one group of all is sync"));
  spec.mutable_regime()->set_sync_group_size(2);
  spec.set_replicas_per_worker(4);
  EXPECT_THAT(CheckRegime(spec), Refused("regime", "multiple of replicas_per_worker, 4"));
  spec.set_replicas_per_worker(2);
  WEIR_EXPECT_OK(CheckRegime(spec));
  EXPECT_EQ(SyncGroups(spec), 4u);
  spec.set_deterministic(true);
  EXPECT_THAT(CheckRegime(spec), Refused("deterministic", "needs regime: sync"));
}

TEST(Regime, BackupWorkersNeedSyncAndSomebodyToWaitFor) {
  v1::JobSpec spec = Spec(v1::REGIME_SYNC, 4);
  spec.mutable_regime()->set_backup_workers(1);
  WEIR_EXPECT_OK(CheckRegime(spec));
  EXPECT_EQ(RegimeText(spec), "sync, 1 backup worker");
  spec.set_deterministic(true);
  EXPECT_THAT(CheckRegime(spec), Refused("backup_workers", "deterministic"));
  spec.set_deterministic(false);
  spec.mutable_regime()->set_backup_workers(4);
  EXPECT_THAT(CheckRegime(spec), Refused("backup_workers", "4 of 4 workers"));
  spec.mutable_regime()->set_backup_workers(1);
  spec.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  EXPECT_THAT(CheckRegime(spec), Refused("backup_workers", "needs regime: sync"));
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
