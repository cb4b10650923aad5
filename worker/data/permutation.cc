// SPDX-License-Identifier: Apache-2.0
#include "worker/data/permutation.h"

#include <numeric>
#include <random>
#include <utility>

namespace weir {
namespace {

// Uniform below `bound`, by rejection: the draws that would favour small results are thrown away.
uint64_t Below(std::mt19937_64& generator, uint64_t bound) {
  const uint64_t rejected = (0 - bound) % bound;  // 2^64 mod bound
  uint64_t drawn = generator();
  while (drawn < rejected) drawn = generator();
  return drawn % bound;
}

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
uint64_t Scramble(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

std::vector<uint64_t> Permutation(uint64_t seed, uint64_t epoch, uint64_t size) {
  std::seed_seq sequence{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                         static_cast<uint32_t>(epoch), static_cast<uint32_t>(epoch >> 32)};
  std::mt19937_64 generator(sequence);
  std::vector<uint64_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  for (uint64_t i = size; i > 1; --i) std::swap(order[i - 1], order[Below(generator, i)]);
  return order;
}

uint64_t MixSeed(uint64_t a, uint64_t b, uint64_t c) {
  return Scramble(Scramble(Scramble(a) ^ b) ^ c);
}

}  // namespace weir
