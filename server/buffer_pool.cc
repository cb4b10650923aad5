// SPDX-License-Identifier: Apache-2.0
#include "server/buffer_pool.h"

#include <utility>

#include "server/slab_pool.h"

namespace weir {

BufferPool::BufferPool(Options options) : slabs_(std::make_shared<SlabPool>(std::move(options))) {}

BufferPool::~BufferPool() {
  slabs_->Detach();
}

BufferRef BufferPool::Allocate(size_t size) {
  return slabs_->Allocate(size);
}

uint64_t BufferPool::used_bytes() const {
  return slabs_->used_bytes();
}

uint64_t BufferPool::mapped_bytes() const {
  return slabs_->mapped_bytes();
}

}  // namespace weir
