// SPDX-License-Identifier: Apache-2.0
#include "weir/run.h"
#include "worker/worker_main.h"

namespace weir {

int RunReplica(const ReplicaClass& replica_class, int argc, char** argv) {
  ModelRegistry models = ModelRegistry::WithBuiltins();
  models.SetReplica(replica_class);
  return WorkerMain(argc, argv, models);
}

}  // namespace weir
