// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <cstdint>

#include "worker/collectives.h"
#include "worker/device_map.h"
#include "worker/group_updates.h"
#include "worker/replica_meeting.h"

namespace weir {

class DeferredUpdates;
class ReplicaVariables;

// What a replica's StepContext and Optimizers work with. All borrowed. Used from the replica's
// thread; between steps from that of the runner.
struct StepParts {
  // For the replica's life.
  uint32_t replica = 0;  // of the process, from 0
  ReplicaMeeting* meeting = nullptr;
  Collectives* collectives = nullptr;
  ReplicaVariables* variables = nullptr;
  DeferredUpdates* deferred = nullptr;
  at::Generator rng;
  DeviceMap devices;
  uint32_t sync_groups = 1;
  // Of the step that runs.
  uint64_t step = 0;
  uint64_t global_step = 0;
  bool in_touch = false;            // with the other replicas: collectives may be called
  GroupUpdates* updates = nullptr;  // nullptr: no training step runs
  double weight = 0;
  bool weight_used = false;  // others know it already
  uint64_t collectives_called = 0;
};

// The device of a replica's logical device. Throws StepError: InvalidArgument - there is none.
c10::Device DeviceOf(const StepParts& parts, uint32_t logical);

}  // namespace weir
