// SPDX-License-Identifier: Apache-2.0
#include "worker/default_generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/utils.h>

#include "common/mutex.h"
#include "worker/data/permutation.h"

namespace weir {
namespace {

// Other globals that change there are none. This one is because what it guards is one, LibTorch's
// default generator, which whoever seeds it cannot hand on.
Mutex& Guard() {
  static Mutex mutex;
  return mutex;
}

}  // namespace

DefaultGenerator::Lock::Lock() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  Guard().Lock();
}

DefaultGenerator::Lock::~Lock() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  Guard().Unlock();
}

void DefaultGenerator::Begin(uint64_t seed, uint32_t first_replica, uint64_t step) {
  seed_ = seed;
  first_replica_ = first_replica;
  step_ = step;
  states_.assign(states_.size(), at::Tensor());
}

void DefaultGenerator::Take(uint32_t replica) {
  const Lock lock;
  if (!states_[replica].defined()) {
    torch::manual_seed(MixSeed(seed_, first_replica_ + replica, step_));
    return;
  }
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> drawing(generator.mutex());
  generator.set_state(states_[replica]);
}

void DefaultGenerator::Pass(uint32_t replica) {
  const Lock lock;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> drawing(generator.mutex());
  states_[replica] = generator.get_state();
}

}  // namespace weir
