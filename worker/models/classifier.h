// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "weir/replica.h"

namespace weir {

// A replica that maps images to class scores and trains on cross entropy. Used from one thread.
class Classifier : public Replica {
 public:
  Nest Train(StepContext& context, const Nest& batch) final;
  Nest Evaluate(StepContext& context, const Nest& batch) final;

 protected:
  virtual torch::Tensor Scores(const torch::Tensor& images) = 0;

  Optimizer optimizer_;
};

}  // namespace weir
