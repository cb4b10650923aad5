// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/part_writer.h"
#include "common/status_macros.h"
#include "weir/v1/coordinator.pb.h"

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

  // Of a job with one server that holds both shards, and none between them.
  static v1::Manifest ManifestOf(v1::CheckpointPart part) {
    part.set_server("server-0");
    part.set_directory("/data/checkpoints/server-0/job/00000001-1");
    part.set_cut(7);
    part.set_attempt(2);
    part.set_step(40);
    part.add_group_steps(3);
    part.add_group_steps(40);
    v1::SequenceMark& mark = *part.add_marks();
    mark.set_worker(0xfedcba9876543210);
    mark.set_group(1);
    mark.set_sequence(40);
    v1::Manifest manifest;
    manifest.set_format(1);
    manifest.set_id("00000001-1");
    manifest.set_job("job");
    manifest.set_step(40);
    manifest.set_examples(5120);
    manifest.set_cut(7);
    v1::Variable& weights = *manifest.mutable_declaration()->add_variables();
    weights.set_name("weights");
    weights.set_dtype(v1::DTYPE_F32);
    weights.add_shape(8);
    weights.set_group(1);
    (*manifest.mutable_metrics())["accuracy"] = 0.5;
    *manifest.add_parts() = std::move(part);
    return manifest;
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
