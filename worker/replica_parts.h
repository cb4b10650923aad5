// SPDX-License-Identifier: Apache-2.0
// What a ReplicaContext gathers while a replica is built, and what an Optimizer is linked to.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weir/replica.h"
#include "weir/variable.h"
#include "worker/step_parts.h"

namespace weir {

struct OptimizerLink {
  std::string name;
  uint32_t group = 0;  // index in the declaration plus one
  std::vector<torch::Tensor> parameters;
  std::vector<size_t> variables;   // of each parameter
  std::vector<std::string> names;  // the same
  StepParts* step = nullptr;       // of the replica, which outlives the link's use
};

struct ReplicaParts {
  // Given.
  Options options;
  ExampleShape shape;
  std::map<std::string, OptimizerGroup> job_optimizers;  // by name
  StepParts step;
  // Gathered.
  Declaration declaration;
  std::vector<torch::Tensor> tensors;  // by variable
  std::map<std::string, std::shared_ptr<torch::nn::Module>> modules;
  std::vector<std::shared_ptr<OptimizerLink>> links;  // by group
};

}  // namespace weir
