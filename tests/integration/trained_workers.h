// SPDX-License-Identifier: Apache-2.0
// The training loops of a job's workers, each on a thread of its own, over hand-made servers.
#pragma once

#include <gmock/gmock.h>

#include <thread>
#include <vector>

#include "tests/integration/meeting_session.h"
#include "tests/integration/small_training.h"
#include "tests/support/status_matchers.h"

namespace weir {

struct WorkersOptions {
  HandMadeJob::Options job;        // what does not follow from the spec
  uint32_t workers_per_group = 0;  // of sync groups; 0: there is one group
};

// What each worker of the spec holds at the job's end.
inline std::vector<absl::StatusOr<Trained>> TrainWorkers(
    const v1::JobSpec& spec, WorkersOptions options = {},
    const ModelRegistry& models = ModelRegistry::WithBuiltins()) {
  const uint32_t workers = spec.workers();
  options.job.declaration = (*SmallRunner(spec, models))->declaration();
  options.job.regime = spec.regime().kind();
  options.job.deterministic = spec.deterministic();
  options.job.workers = workers;
  options.job.servers = 2;
  HandMadeJob job(options.job);
  Meeting meeting(job, workers);
  std::vector<absl::StatusOr<Trained>> results(workers, absl::UnknownError("not run"));
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < workers; ++rank) {
    threads.emplace_back([&, rank] {
      MeetingSession session(meeting, rank, workers, options.workers_per_group);
      results[rank] = TrainSmall(spec, session, job.client(rank), models);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

// What all of them hold: the same, or the test fails.
inline std::vector<float> ValuesOfAll(const std::vector<absl::StatusOr<Trained>>& results) {
  for (const auto& result : results) {
    EXPECT_THAT(result, IsOk());
    if (!result.ok()) return {};
    EXPECT_EQ(result->values, results[0]->values);
    EXPECT_EQ(result->summary.test_accuracy, results[0]->summary.test_accuracy);
  }
  return results[0]->values;
}

}  // namespace weir
