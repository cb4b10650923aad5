// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "worker/data/batch.h"

namespace weir {

class Nest;

// What one replica gets for a step. Cheap to copy; the content is not written to.
struct ReplicaBatch {
  ReplicaBatch() = default;
  ReplicaBatch(uint64_t count, std::shared_ptr<const Nest> content)
      : examples(count), input(std::move(content)) {}
  // "image" and "label"; in weir::worker, which knows LibTorch.
  ReplicaBatch(ImageBatch images);

  uint64_t examples = 0;  // its weight, where the step says no other
  std::shared_ptr<const Nest> input;
};

}  // namespace weir
