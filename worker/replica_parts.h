// SPDX-License-Identifier: Apache-2.0
// What a ReplicaContext gathers while a replica is built, and what an Optimizer is linked to.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weir/replica.h"
#include "weir/variable.h"
#include "worker/group_updates.h"

namespace weir {

struct OptimizerLink {
  uint32_t group = 0;  // index in the declaration plus one
  std::vector<torch::Tensor> parameters;
  std::vector<size_t> variables;    // of each parameter
  std::vector<std::string> names;   // the same
  GroupUpdates* updates = nullptr;  // of the step that runs; nullptr: none does
};

struct ReplicaParts {
  // Given.
  Options options;
  ExampleShape shape;
  std::map<std::string, OptimizerGroup> job_optimizers;  // by name
  // Gathered.
  Declaration declaration;
  std::vector<torch::Tensor> tensors;  // by variable
  std::map<std::string, std::shared_ptr<torch::nn::Module>> modules;
  std::vector<std::shared_ptr<OptimizerLink>> links;  // by group
};

}  // namespace weir
