// SPDX-License-Identifier: Apache-2.0
// Programs of one's own. C++17; no protobuf, no gRPC.
#pragma once

#include "weir/replicator.h"

namespace weir {

// A program that trains one worker's share of a job with replicas of this class, with the flags and
// exit codes of weir-worker. The job file says `model: {replica: NAME, options: {...}}`.
int RunReplica(const ReplicaClass& replica_class, int argc, char** argv);

// int main(int argc, char** argv) { return weir::Run<MyReplica>(argc, argv); }
template <typename R>
int Run(int argc, char** argv) {
  return RunReplica(ReplicaClassOf<R>(), argc, argv);
}

}  // namespace weir
