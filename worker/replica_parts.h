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

// What a job file says of an optimizer.
struct JobOptimizer {
  OptimizerGroup group;
  GradientClip clip;
  std::vector<std::string> no_decay;  // patterns
};

struct OptimizerLink {
  std::string name;
  GradientClip clip;
  bool clip_is_the_jobs = false;  // and not the code's to say
  std::vector<torch::Tensor> parameters;
  std::vector<size_t> variables;   // of each parameter
  std::vector<std::string> names;  // the same
  std::vector<uint32_t> groups;    // the same; indices in the declaration plus one
  StepParts* step = nullptr;       // of the replica, which outlives the link's use
};

struct ReplicaParts {
  // Given.
  Options options;
  ExampleShape shape;
  std::map<std::string, JobOptimizer> job_optimizers;  // by name
  StepParts step;
  // Gathered.
  Declaration declaration;
  std::vector<torch::Tensor> tensors;  // by variable
  std::map<std::string, std::shared_ptr<torch::nn::Module>> modules;
  std::vector<std::shared_ptr<OptimizerLink>> links;
};

}  // namespace weir
