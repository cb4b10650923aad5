// SPDX-License-Identifier: Apache-2.0
// The built-in models: worker/builtin_models.h has their options.
#pragma once

#include <memory>

namespace weir {

class Replica;
class ReplicaContext;

// A perceptron: flattened images, hidden layers with ReLU (option hidden: their sizes), class
// scores.
std::unique_ptr<Replica> CreateMlp(ReplicaContext& context);

// A residual network for small images (He et al. 2015, section 4.2): 3 stages of (depth - 2) / 6
// blocks with width, 2 width and 4 width channels, projection shortcuts, batch norm. Options: depth
// (8, 14, 20), width. Throws StepError with InvalidArgument for another depth.
std::unique_ptr<Replica> CreateResNet(ReplicaContext& context);

}  // namespace weir
