// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/part_writer.h"
#include "common/status_macros.h"

namespace weir {

// Shards 4 (two chunks of f32 with a slot) and 9 (one chunk of i64, none initialised).
class SamplePart {
 public:
  absl::StatusOr<v1::CheckpointPart> Write(PartWriter::Options options) const {
    WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<PartWriter> writer,
                          PartWriter::Create(std::move(options)));
    for (const ChunkRecord& record : Records()) WEIR_RETURN_IF_ERROR(writer->Add(record));
    return writer->Finish();
  }

  std::vector<ChunkRecord> Records() const {
    ChunkRecord first{.shard = ShardId{4},
                      .chunk = 0,
                      .dtype = v1::DTYPE_F32,
                      .initialised = true,
                      .elements = weights_.size(),
                      .version = 5,
                      .examples = 640,
                      .weights = BytesOf(weights_),
                      .slot_count = 1,
                      .slot_stride_bytes = weights_.size() * sizeof(float),
                      .slots = BytesOf(momentum_)};
    ChunkRecord second = first;
    second.chunk = 1;
    second.version = 6;
    second.slot_count = 0;
    second.slots = {};
    ChunkRecord third{.shard = ShardId{9}, .chunk = 0, .dtype = v1::DTYPE_I64, .elements = 2};
    return {first, second, third};
  }

 private:
  static absl::Span<const std::byte> BytesOf(const std::vector<float>& values) {
    return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()),
                               values.size() * sizeof(float));
  }

  std::vector<float> weights_ = {1.5f, -2.25f, 3e-40f, 0.1f};
  std::vector<float> momentum_ = {0.5f, 0.25f, -0.125f, 1e30f};
};

}  // namespace weir
