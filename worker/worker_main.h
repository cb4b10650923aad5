// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker/model_registry.h"

namespace weir {

// The main function of a program that trains one worker's share of a job: its flags, its signals,
// its exit code. It may start the program once more.
int WorkerMain(int argc, char** argv, const ModelRegistry& models);

}  // namespace weir
