// SPDX-License-Identifier: Apache-2.0
// What a step function knows about its replica and how it talks to the others. C++17; no protobuf,
// no gRPC.
#pragma once

#include <ATen/core/Generator.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "weir/nest.h"
#include "weir/reduce.h"

namespace weir {

struct StepLink;
struct StepParts;

// One call of a step function on one replica. Used from one thread, the replica's.
//
// Collectives block until all replicas in sync have called them; all call the same ones in the same
// order, and none in Evaluate. Names are for messages. They throw StepError: InvalidArgument -
// another replica calls something else, or has ended its step (names both, and what they call), or
// a dtype that the operation is not for; DeadlineExceeded - who is missing; Aborted - a worker left
// in the middle of the step; FailedPrecondition - called outside of a training step.
class StepContext {
 public:
  explicit StepContext(StepParts& parts);
  ~StepContext();
  StepContext(const StepContext&) = delete;
  StepContext& operator=(const StepContext&) = delete;

  // Of the calling thread: for modules that talk to the other replicas. nullptr: no step runs here.
  static StepContext* Current();

  uint64_t step() const;         // in `sync` the job's, in a sync group its, else this worker's own
  uint64_t global_step() const;  // the job's, done before this one; outside `sync` about
  uint32_t replica_id() const;   // from 0, among all of the job
  // Those whose collectives and gradients meet: in `sync` all, in `async` those of this process.
  uint32_t num_replicas_in_sync() const;
  uint32_t num_sync_groups() const;
  // Random numbers of this replica's own, for tensors on the CPU: the same for the same seed,
  // replica and step.
  at::Generator& rng();
  torch::Device device() const;  // logical device 0: where the input is
  // Of those that the job gives each replica. Throws StepError: InvalidArgument - there is none.
  torch::Device LogicalDevice(uint32_t logical) const;

  // How much this replica counts in a mean: the first dimension of its batch, or what was set:
  // tokens, masked items. Throws StepError: InvalidArgument - negative or not finite;
  // FailedPrecondition - after the step's first collective or Optimizer::Step.
  double weight() const;
  void SetWeight(double weight);

  // Of f32, f64, i32, i64, bool; means of f32 and f64 only. Results have gradients, and these
  // gradients have some too (docs/replicator.md): the backward pass is a collective as well, which
  // all replicas call in the same order, within the step.
  torch::Tensor AllReduce(const torch::Tensor& tensor, ReduceOp op, const std::string& name = "");
  // [replicas in sync] + the tensor's shape, in the order of replica ids.
  torch::Tensor AllGather(const torch::Tensor& tensor, const std::string& name = "");
  // That of one of the replicas in sync, counted from 0 in the order of ids: row `source` of what
  // AllGather would give.
  torch::Tensor Broadcast(const torch::Tensor& tensor, uint32_t source = 0,
                          const std::string& name = "");
  // Tensor by tensor.
  Nest AllReduce(const Nest& nest, ReduceOp op, const std::string& name = "");
  Nest AllGather(const Nest& nest, const std::string& name = "");
  Nest Broadcast(const Nest& nest, uint32_t source = 0, const std::string& name = "");

  // Shares work that is the same on all replicas: `items` (equal on all; every tensor with the same
  // first dimension n) is divided along its first dimension, each replica calls `function` on its
  // part, which may be empty, and gets what all of them returned, without a gradient. MapGather:
  // joined along the first dimension, in order. MapReduce: reduced; a mean is weighted by the
  // parts' sizes.
  using Function = std::function<Nest(const Nest& part)>;
  Nest MapGather(const Nest& items, const Function& function, const std::string& name = "");
  Nest MapReduce(const Nest& items, const Function& function, ReduceOp op,
                 const std::string& name = "");

 private:
  torch::Tensor Run(const torch::Tensor& tensor, ReduceOp op, uint32_t source,
                    const std::string& name, double weight);
  Nest PartOf(const Nest& items, int64_t& size) const;
  void CheckInTouch() const;

  StepParts& parts_;
  const std::shared_ptr<StepLink> link_;
  StepContext* const outer_;
};

}  // namespace weir
