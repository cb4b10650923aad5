// SPDX-License-Identifier: Apache-2.0
#include "weir/replicator.h"

#include "worker/replica_loop.h"

namespace weir {

bool ReplicatorBase::Next() {
  return loop_.Next();
}

void ReplicatorBase::Log(const absl::StatusOr<std::vector<Nest>>& outputs) {
  if (outputs.ok()) loop_.Log(*outputs);
}

absl::StatusOr<std::vector<Nest>> ReplicatorBase::RunStep(const StepFunction& function) {
  return loop_.RunStep(function);
}

absl::StatusOr<Nest> ReplicatorBase::Reduce(const std::vector<Nest>& values, ReduceOp op,
                                            const std::string& name) {
  return loop_.Collect(values, [op, name](StepContext& context, const Nest& value) {
    return context.AllReduce(value, op, name);
  });
}

absl::StatusOr<Nest> ReplicatorBase::Broadcast(const std::vector<Nest>& values, uint32_t source,
                                               const std::string& name) {
  return loop_.Collect(values, [source, name](StepContext& context, const Nest& value) {
    return context.Broadcast(value, source, name);
  });
}

uint64_t ReplicatorBase::step() const {
  return loop_.Place().step;
}
uint32_t ReplicatorBase::num_replicas_in_sync() const {
  return loop_.Place().replicas_in_sync;
}
uint32_t ReplicatorBase::num_local_replicas() const {
  return loop_.replicas();
}

}  // namespace weir
