// SPDX-License-Identifier: Apache-2.0
#include "worker/start_line.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

v1::JobSpec Spec(v1::Regime kind) {
  v1::JobSpec spec;
  spec.set_workers(4);
  spec.mutable_data()->mutable_batch()->set_global(256);
  spec.mutable_regime()->set_kind(kind);
  (*spec.mutable_optimizers())["sgd"].mutable_learning_rate()->set_base(0.1);
  return spec;
}

TEST(StartLine, SaysRegimeEffectiveBatchAndRate) {
  EXPECT_EQ(StartLine(Spec(v1::REGIME_SYNC)),
            "sync: 4 workers; an update takes 256 examples, 64 of each worker; sgd: learning rate "
            "0.1");
  EXPECT_EQ(StartLine(Spec(v1::REGIME_ASYNC)),
            "async: 4 workers; an update takes 64 examples, of one worker; sgd: learning rate 0.1");
}

// A replica class has optimizers of its own, which the job need not name.
TEST(StartLine, SaysHowManyReplicasAWorkerHasAndOnlyRatesOfTheJob) {
  v1::JobSpec spec = Spec(v1::REGIME_SYNC);
  spec.set_replicas_per_worker(2);
  spec.clear_optimizers();
  EXPECT_EQ(StartLine(spec),
            "sync: 4 workers of 2 replicas; an update takes 256 examples, 64 of each worker");
}

TEST(StartLine, LeavesBackupWorkersOutOfTheEffectiveBatch) {
  v1::JobSpec spec = Spec(v1::REGIME_SYNC);
  spec.mutable_regime()->set_backup_workers(1);
  EXPECT_EQ(StartLine(spec),
            "sync, 1 backup worker: 4 workers; an update takes 192 examples, 64 of each worker but "
            "the last 1; sgd: learning rate 0.1");
}

TEST(StartLine, SaysWhatAScaledRateComesTo) {
  v1::JobSpec spec = Spec(v1::REGIME_ASYNC);
  spec.mutable_regime()->set_learning_rate_scale(v1::RATE_SCALE_WORKERS);
  EXPECT_EQ(StartLine(spec),
            "async, rate 1/workers: 4 workers; an update takes 64 examples, of one worker; sgd: "
            "learning rate 0.025 (0.1 / 4 workers)");
}

TEST(StartLine, SaysTheShapeOfASchedule) {
  v1::JobSpec spec = Spec(v1::REGIME_SYNC);
  v1::Schedule& rate = *(*spec.mutable_optimizers())["sgd"].mutable_learning_rate();
  rate.mutable_cosine()->set_final_rate(0.001);
  rate.set_warm_up_examples(5000);
  EXPECT_EQ(StartLine(spec),
            "sync: 4 workers; an update takes 256 examples, 64 of each worker; sgd: learning rate "
            "0.1, cosine to 0.001, after a warm-up of 5000 examples");
}

}  // namespace
}  // namespace weir
