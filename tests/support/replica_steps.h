// SPDX-License-Identifier: Apache-2.0
// One step of several replicas without models: each a thread with a StepContext.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "weir/step_context.h"
#include "worker/local_collectives.h"
#include "worker/replica_meeting.h"
#include "worker/step_parts.h"

namespace weir {

// Calls `step` for each replica, of ids 0, 1, ... and these weights. Gives what each ended with.
inline std::vector<absl::Status> RunStepOfReplicas(
    const std::vector<double>& weights, const std::function<void(StepParts&, size_t)>& step) {
  ReplicaMeeting::Options options;
  options.replicas = static_cast<uint32_t>(weights.size());
  options.timeout = absl::Seconds(60);
  ReplicaMeeting meeting(options);
  LocalCollectives collectives(meeting);
  LocalCollectives::Step place;
  place.step = 17;
  place.replicas_in_sync = options.replicas;
  meeting.Begin(place.step, /*first_id=*/0);
  collectives.BeginStep(place);

  std::vector<absl::Status> ends(weights.size());
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < weights.size(); ++i) {
    threads.emplace_back([&, i] {
      StepParts parts;
      parts.replica = i;
      parts.meeting = &meeting;
      parts.collectives = &collectives.of(i);
      parts.step = place.step;
      parts.in_touch = true;
      parts.weight = weights[i];
      meeting.Start(i);
      try {
        step(parts, i);
      } catch (const StepError& error) {
        ends[i] = error.status();
      }
      meeting.End(i, ends[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

inline std::vector<absl::Status> RunStepOfReplicas(
    const std::vector<double>& weights, const std::function<void(StepContext&, size_t)>& step) {
  return RunStepOfReplicas(
      weights, std::function<void(StepParts&, size_t)>([&](StepParts& parts, size_t replica) {
        StepContext context(parts);
        step(context, replica);
      }));
}

}  // namespace weir
