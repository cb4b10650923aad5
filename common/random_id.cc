// SPDX-License-Identifier: Apache-2.0
#include "common/random_id.h"

#include <random>

namespace weir {

uint64_t RandomId() {
  std::random_device source;
  uint64_t id = 0;
  while (id == 0) id = (static_cast<uint64_t>(source()) << 32) | source();
  return id;
}

}  // namespace weir
