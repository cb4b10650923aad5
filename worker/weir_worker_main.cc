// SPDX-License-Identifier: Apache-2.0
// weir-worker: trains one worker's share of a job.
#include "worker/worker_main.h"

int main(int argc, char** argv) {
  return weir::WorkerMain(argc, argv, weir::ModelRegistry::WithBuiltins());
}
