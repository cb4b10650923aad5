// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace weir {

// A uniformly random order of 0 .. size-1: a Fisher-Yates shuffle driven by std::mt19937_64, seeded
// from (seed, epoch). The same on every machine and standard library.
std::vector<uint64_t> Permutation(uint64_t seed, uint64_t epoch, uint64_t size);

// A generator seeded from some numbers; unlike a sum or a xor of them, no two lists meet by design.
// For augmentation and for LibTorch's seed of a step.
uint64_t MixSeed(uint64_t a, uint64_t b, uint64_t c);

}  // namespace weir
