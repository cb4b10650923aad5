// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "weir/v1/variables.pb.h"

namespace weir {

// Optimizers with LibTorch's default options and rate 0.01.
v1::Optimizer Sgd();
v1::Optimizer Adagrad();
v1::Optimizer RmsProp();
v1::Optimizer Adam();
v1::Optimizer AdamW();

// One for each way through the kernels, with a name that tells its options.
struct NamedOptimizer {
  std::string name;
  v1::Optimizer optimizer;
};
std::vector<NamedOptimizer> AllOptimizers();

}  // namespace weir
