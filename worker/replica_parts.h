// SPDX-License-Identifier: Apache-2.0
// What a ReplicaContext gathers while a replica is built, and what an Optimizer is linked to.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
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

class LocalOptimizer;

struct OptimizerLink {
  std::string name;
  GradientClip clip;
  bool clip_is_the_jobs = false;  // and not the code's to say
  std::vector<torch::Tensor> parameters;
  std::vector<size_t> variables;   // of each parameter
  std::vector<std::string> names;  // the same
  std::vector<uint32_t> groups;    // the same; indices in the declaration plus one
  StepParts* step = nullptr;       // of the replica, which outlives the link's use
  uint64_t stepped = 0;            // one more than the step of its last update
  // Of an optimizer that the replicas step: that of the process's first one is used.
  std::shared_ptr<LocalOptimizer> local;  // links are of handles, which users copy
  std::vector<size_t> kept;               // variables of what it keeps, in the group of all
  bool told = false;                      // its last step's values were this process's to push
};

// A module that follows another one.
struct TargetLink {
  std::string name;
  uint32_t group = 0;  // index in the declaration plus one
  uint64_t every = 0;  // steps; 0: with every step of an optimizer of the source's
  std::vector<size_t> variables;
  std::vector<size_t> sources;                                   // of each variable
  std::vector<std::pair<torch::Tensor, torch::Tensor>> buffers;  // its own, the source's
};

struct ReplicaParts {
  // Given.
  Options options;
  ExampleShape shape;
  std::map<std::string, JobOptimizer> job_optimizers;  // by name
  std::string no_local_optimizers;                     // why not; empty: they may be
  StepParts step;
  // Gathered.
  Declaration declaration;
  std::vector<torch::Tensor> tensors;  // by variable
  std::map<std::string, std::shared_ptr<torch::nn::Module>> modules;
  std::vector<std::shared_ptr<OptimizerLink>> links;
  std::vector<TargetLink> targets;
};

}  // namespace weir
