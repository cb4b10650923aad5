// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "weir/reduce.h"
#include "weir/variable.h"

namespace weir {

// One collective; equal on all who take part, but for the weight.
struct CollectiveCall {
  ReduceOp op = ReduceOp::kSum;
  std::string name;  // what the user called it; may be empty
  DType dtype = DType::kFloat32;
  std::vector<uint64_t> shape;  // of one replica's contribution
  double weight = 1;            // of the mean
  uint32_t source = 0;          // kBroadcast: a replica's place among those in sync

  uint64_t bytes() const;
};

// 'AllReduce(SUM) "loss" f32[3]': without the weight, so equal for calls that match.
std::string Describe(const CollectiveCall& call);

// Who answers a roll call: a process.
struct Present {
  uint32_t rank = 0;
  bool newcomer = false;  // its first step of this attempt of the job
};

// What one replica says to all replicas in sync. Used from one thread, the replica's, in the
// same order by all.
class Collectives {
 public:
  virtual ~Collectives() = default;

  virtual uint32_t replica_id() const = 0;  // of all
  // As this worker knows them; after Assemble or Run, as all know them until the step's end.
  virtual uint32_t num_replicas_in_sync() const = 0;
  // This replica's place among those in sync, in the order of ids.
  virtual uint32_t index() const = 0;

  // After Assemble, where some processes are newcomers and others not: the place of the lowest
  // replica of those that are not.
  virtual absl::optional<uint32_t> elder() const = 0;

  // Blocks until all have called, once a step; needs no call before Run. Errors: those of Run.
  virtual absl::Status Assemble() = 0;

  // Blocks until all have called; all get the same result. kGather: [replicas in sync] x data, in
  // the order of ids. Errors: InvalidArgument - the others call something else (names two replicas
  // and their operations), or a dtype that the operation is not for; DeadlineExceeded - who is
  // missing; Aborted - a worker left in the middle of the step; or the error of a replica of this
  // process whose step failed.
  virtual absl::Status Run(const CollectiveCall& call, absl::Span<const std::byte> data,
                           std::vector<std::byte>& result) = 0;
};

// Which collective of the job it is.
struct CollectivePlace {
  uint64_t step = 0;
  uint32_t ordinal = 0;  // in the step, from 0
};

// What one process says to the other processes in sync, for all of its replicas. Thread-compatible.
class ProcessCollectives {
 public:
  virtual ~ProcessCollectives() = default;

  // The first collective of a step: the processes that take part in it, in the order of ranks. One
  // that leaves later fails the step.
  virtual absl::StatusOr<std::vector<Present>> CallRoll(const CollectivePlace& place,
                                                        bool newcomer) = 0;

  // `data`: kGather - the blocks of the process's replicas in the order of ids; else one block,
  // reduced already, `call.weight` being the sum over its replicas. Errors: those of
  // ParameterClient::Reduce.
  virtual absl::Status Run(const CollectiveCall& call, const CollectivePlace& place,
                           absl::Span<const std::byte> data, std::vector<std::byte>& result) = 0;
};

}  // namespace weir
