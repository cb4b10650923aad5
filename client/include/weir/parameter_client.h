// SPDX-License-Identifier: Apache-2.0
// Pull, push and push-pull of a job's variables, and collectives. C++17; no LibTorch, no protobuf,
// no gRPC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "weir/reduce.h"

namespace weir {

// A whole variable's elements, contiguous, in its dtype and machine order. `variable` is its
// position in the Declaration.
struct PullItem {
  size_t variable = 0;
  void* data = nullptr;
  size_t bytes = 0;
};
struct PushItem {
  size_t variable = 0;
  const void* data = nullptr;  // nullptr: absent; no gradient this time
  size_t bytes = 0;
};

struct PullOptions {
  // sync: weights after all steps before this one; bounded staleness: when this one may begin; 0:
  // whatever is there.
  uint64_t step = 0;
  absl::Duration timeout = absl::Minutes(10);
};

struct PushOptions {
  uint32_t group = 1;       // index of the optimizer group plus one; 0: state
  uint64_t step = 0;        // the job step, from 0
  uint64_t group_step = 0;  // the group's own step, from 0
  double weight = 1;        // in the mean, of the job's per-worker batch; 0 only if all is absent
  uint64_t examples = 0;    // behind this push
  uint64_t consumed = 0;  // of this worker's data ranges, by the end of this push, in this attempt
  double rate_scale = 1;
  bool finished = false;  // bounded staleness: this worker makes no more steps, none is waited for
  bool may_update_again = false;  // in step: the group, in this step; equal on all workers
  absl::Duration timeout = absl::Minutes(10);
};

struct PullStats {
  uint64_t examples = 0;      // applied to the weights that came
  uint64_t bytes = 0;         // of payload
  uint64_t slowest_step = 0;  // bounded staleness, of a pull with a step: where a joiner begins
  // In step, of a pull with a step: the group steps before it, [0] state's, then by group.
  std::vector<uint64_t> group_steps;
};
struct PushStats {
  bool repeated = false;   // all of it had been counted before
  uint64_t staleness = 0;  // not sync: the most updates by others since the last pull
  uint64_t bytes = 0;      // of payload, both ways
  // Of the call: until the last gradient was out; then until the first answer; then until its end.
  absl::Duration sending, waiting, receiving;
  // backup workers: some of it came after its step had closed, and was dropped. The others are in
  // `next_step` and `next_group_step`, with which this worker goes on.
  bool late = false;
  uint64_t next_step = 0;
  uint64_t next_group_step = 0;
};

// An operation under way. Destruction waits for its end. Used from one thread.
class PendingPush {
 public:
  virtual ~PendingPush() = default;
  // The buffers given to it are free again, and those pulled into are written, when this returns.
  virtual absl::StatusOr<PushStats> Wait() = 0;
};

// Thread-safe, but pushes of one group are made one after another, at most two under way at once.
//
// Every call ends in a result or, by its timeout, in a status that names who was waited for.
// Errors common to all: InvalidArgument - an item's variable, group or size, a gradient that is not
// finite (named; nothing was sent), a bad weight; Aborted - the job was rolled back or this worker
// is no longer a member (JobSession::Info has the step to resume from); FailedPrecondition - the
// job has ended; DeadlineExceeded - who is missing. Outages shorter than the timeout are retried
// inside.
class ParameterClient {
 public:
  virtual ~ParameterClient() = default;

  // Initial values of all variables. For the worker that JobSession names the initialiser, before
  // its ReportInitialised; others get FailedPrecondition.
  virtual absl::Status Assign(absl::Span<const PushItem> values) = 0;

  virtual absl::StatusOr<PullStats> Pull(absl::Span<const PullItem> into,
                                         const PullOptions& options) = 0;

  // `gradients` names every variable of the group once; those left out count as absent.
  // Applied exactly once. Returns when all servers have acknowledged.
  virtual absl::StatusOr<PushStats> Push(absl::Span<const PushItem> gradients,
                                         const PushOptions& options) = 0;

  // Push, and the new weights of the variables in `into` back. In sync: those after this group
  // step. In bounded staleness: when the step after this one may begin.
  virtual absl::StatusOr<PushStats> PushPull(absl::Span<const PushItem> gradients,
                                             absl::Span<const PullItem> into,
                                             const PushOptions& options) = 0;

  // The same without waiting: both sets of buffers stay valid and untouched until Wait returns.
  virtual std::unique_ptr<PendingPush> StartPushPull(absl::Span<const PushItem> gradients,
                                                     absl::Span<const PullItem> into,
                                                     const PushOptions& options) = 0;

  // One collective over the processes of a sync job: waits for every member that counts in the
  // step. All members call the same ones in the same order, each one at a time; those of a step
  // are numbered by `ordinal` from 0. `data`: options.shape in options.dtype, in kGather one after
  // another for each of options.replicas; in kBroadcast it may be empty where the source is
  // elsewhere. `result`, which is apart from it, gets the same bits on all, kGather the
  // contributions of all replicas in the order of ids; after an error it has no meaning.
  // Errors besides: InvalidArgument - on every member, where they call different things: names two
  // of them and their calls; Aborted - also, MayRepeatStep: a member has left within the step;
  // FailedPrecondition - a regime without steps in common, or a reader.
  virtual absl::StatusOr<ReduceStats> Reduce(absl::Span<const std::byte> data,
                                             const ReduceOptions& options,
                                             std::vector<std::byte>& result) = 0;
};

}  // namespace weir
