// SPDX-License-Identifier: Apache-2.0
#include "worker/replica_batch.h"

#include <torch/types.h>

#include "weir/nest.h"

namespace weir {

ReplicaBatch::ReplicaBatch(ImageBatch images) : examples(images.examples) {
  const auto size = [](uint64_t value) { return static_cast<int64_t>(value); };
  // The tensors are views of its memory, and own it together.
  const auto owner = std::make_shared<ImageBatch>(std::move(images));
  const auto keep = [owner](void*) {};
  input = std::make_shared<const Nest>(Nest{
      {"image",
       torch::from_blob(owner->images.data(),
                        {size(owner->examples), 1, size(owner->height), size(owner->width)}, keep)},
      {"label",
       torch::from_blob(owner->labels.data(), {size(owner->examples)}, keep, torch::kInt64)}});
}

}  // namespace weir
