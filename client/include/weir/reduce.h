// SPDX-License-Identifier: Apache-2.0
// Collectives over the worker processes of a sync job. C++17; no LibTorch, no protobuf, no gRPC.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "weir/variable.h"

namespace weir {

enum class ReduceOp {
  kSum,        // integers wrap around; of bool: whether there is a true one
  kMean,       // weighted; of kFloat32 and kFloat64 alone. All weights 0: all count equally
  kMin,        // NaN where there is one
  kMax,        // the same
  kFirst,      // of the lowest rank
  kGather,     // all, in the order of replica ids
  kBroadcast,  // of the replica `source`
};

// One collective. All that take part give the same, but for weight and timeout.
struct ReduceOptions {
  std::string name;  // what the user calls it; at most 256 bytes
  ReduceOp op = ReduceOp::kSum;
  DType dtype = DType::kFloat32;
  std::vector<uint64_t> shape;  // of one replica's contribution; empty: a scalar
  // Of each process. kGather: it gives so many contributions, one after another; the other
  // operations take one, in which the process has combined those of its replicas.
  uint32_t replicas = 1;
  double weight = 1;     // of the mean, summed over the process's replicas
  uint32_t source = 0;   // kBroadcast: replica id = rank * replicas + index in the process
  uint64_t step = 0;     // the job step
  uint32_t ordinal = 0;  // which collective of the step, from 0
  absl::Duration timeout = absl::Minutes(10);
};

struct ReduceStats {
  uint32_t members = 0;  // how many processes took part
  double weight = 0;     // the sum of theirs
};

// True: a member has left within the step, whose collectives cannot be had. Nothing was rolled
// back: the step can be repeated at once, without it, from its collective 0.
bool MayRepeatStep(const absl::Status& status);

}  // namespace weir
