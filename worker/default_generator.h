// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace weir {

// LibTorch's default generator, from which dropout and initialisation draw: one for the process,
// whoever draws. A replica that has the turn finds in it what it left there. Thread-compatible:
// used by whoever has the turn.
class DefaultGenerator {
 public:
  // Nobody else seeds it meanwhile: models draw their first values. Used from one thread.
  class Lock {
   public:
    Lock();
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
  };

  explicit DefaultGenerator(uint32_t replicas) : states_(replicas) {}

  // A step begins: every replica starts from a seed of its own.
  void Begin(uint64_t seed, uint32_t first_replica, uint64_t step);
  // The replica (from 0 in the process) goes on drawing; it stops.
  void Take(uint32_t replica);
  void Pass(uint32_t replica);

 private:
  uint64_t seed_ = 0;
  uint32_t first_replica_ = 0;
  uint64_t step_ = 0;
  std::vector<at::Tensor> states_;  // undefined: has not drawn in this step
};

}  // namespace weir
