// SPDX-License-Identifier: Apache-2.0
#include "tests/support/saved_checkpoint.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "checkpoint/chunk_record.h"
#include "checkpoint/manifest.h"
#include "checkpoint/manifest_store.h"
#include "checkpoint/part_reader.h"
#include "common/file_system.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "sharding/layout.h"

namespace weir {
namespace {

Layout LayoutOf(const v1::Manifest& manifest) {
  std::vector<VariableExtent> extents;
  for (const v1::Variable& variable : manifest.declaration().variables()) {
    VariableExtent& extent = extents.emplace_back();
    extent.elements = 1;
    for (const uint64_t size : variable.shape()) extent.elements *= size;
    extent.element_bytes = ElementBytes(variable.dtype());
  }
  return Layout(extents, manifest.shard_map().shard_bytes(), manifest.shard_map().chunk_bytes());
}

const v1::Variable& VariableOf(const v1::Manifest& manifest, const Shard& shard) {
  return manifest.declaration().variables(static_cast<int>(shard.variable));
}

absl::string_view Chars(absl::Span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

absl::Status Append(const Shard& shard, v1::DType dtype, uint64_t chunk, absl::string_view bytes,
                    SavedVariable& to) {
  WEIR_ASSIGN_OR_RETURN(const ChunkRecord record, DecodeChunkRecord(bytes, "a record"));
  WEIR_RETURN_IF_ERROR(CheckChunkRecord(record, shard, chunk, dtype));
  absl::StrAppend(&to.weights, Chars(record.weights));
  to.slots.emplace_back(Chars(record.slots));
  to.versions.push_back(record.version);
  to.examples.push_back(record.examples);
  return absl::OkStatus();
}

void Append(const SavedVariable& piece, SavedVariable& to) {
  absl::StrAppend(&to.weights, piece.weights);
  to.slots.insert(to.slots.end(), piece.slots.begin(), piece.slots.end());
  to.versions.insert(to.versions.end(), piece.versions.begin(), piece.versions.end());
  to.examples.insert(to.examples.end(), piece.examples.begin(), piece.examples.end());
}

absl::Status ReadPart(const v1::Manifest& manifest, const v1::CheckpointPart& part,
                      absl::Span<const Shard> shards, std::vector<SavedVariable>& pieces) {
  WEIR_ASSIGN_OR_RETURN(const auto reader,
                        PartReader::Open(FileSystem::Real(), part.directory(), part.files()));
  for (int position = 0; position < part.shards_size(); ++position) {
    const uint64_t id = part.shards(position);
    if (id >= shards.size()) return absl::DataLossError(absl::StrCat("no such shard: ", id));
    const Shard& shard = shards[id];
    const v1::DType dtype = VariableOf(manifest, shard).dtype();
    WEIR_ASSIGN_OR_RETURN(const std::string holder, HolderOfShard(part, position));
    WEIR_RETURN_IF_ERROR(
        reader->ReadShard(holder, shard.id, [&](uint64_t chunk, absl::string_view record) {
          return Append(shard, dtype, chunk, record, pieces[id]);
        }));
  }
  return absl::OkStatus();
}

void AppendFloats(absl::string_view bytes, std::vector<float>& to) {
  const size_t before = to.size();
  to.resize(before + bytes.size() / sizeof(float));
  std::memcpy(to.data() + before, bytes.data(), (to.size() - before) * sizeof(float));
}

std::string Difference(const std::string& name, const SavedVariable& a, const SavedVariable& b) {
  const auto numbers = [](const std::vector<uint64_t>& of) { return absl::StrJoin(of, ","); };
  if (a.weights.size() != b.weights.size()) {
    return absl::StrCat(name, ": ", a.weights.size(), " and ", b.weights.size(), " bytes");
  }
  for (size_t i = 0; i < a.weights.size(); ++i) {
    if (a.weights[i] != b.weights[i]) return absl::StrCat(name, ": weights, byte ", i);
  }
  if (a.versions != b.versions) {
    return absl::StrCat(name, ": versions ", numbers(a.versions), " and ", numbers(b.versions));
  }
  if (a.examples != b.examples) {
    return absl::StrCat(name, ": examples ", numbers(a.examples), " and ", numbers(b.examples));
  }
  if (a.slot_bytes() != b.slot_bytes()) {
    return absl::StrCat(name, ": ", a.slot_bytes(), " and ", b.slot_bytes(), " bytes of slots");
  }
  return a.slots == b.slots ? "" : absl::StrCat(name, ": slots");
}

}  // namespace

uint64_t SavedVariable::slot_bytes() const {
  uint64_t bytes = 0;
  for (const std::string& chunk : slots) bytes += chunk.size();
  return bytes;
}

std::vector<float> SavedCheckpoint::Weights() const {
  std::vector<float> values;
  for (const auto& [name, variable] : variables) {
    if (variable.is_parameter) AppendFloats(variable.weights, values);
  }
  return values;
}

std::vector<float> SavedCheckpoint::Slots() const {
  std::vector<float> values;
  for (const auto& [name, variable] : variables) {
    if (!variable.is_parameter) continue;
    for (const std::string& chunk : variable.slots) AppendFloats(chunk, values);
  }
  return values;
}

absl::StatusOr<SavedCheckpoint> ReadSavedCheckpoint(const std::string& data_folder,
                                                    const std::string& job, const std::string& id) {
  ManifestStore manifests(FileSystem::Real(), data_folder + "/checkpoints");
  SavedCheckpoint saved;
  WEIR_ASSIGN_OR_RETURN(saved.manifest,
                        id.empty() ? manifests.Latest(job) : manifests.Load(job, id));
  WEIR_RETURN_IF_ERROR(CheckManifest(saved.manifest));
  const Layout layout = LayoutOf(saved.manifest);
  std::vector<SavedVariable> pieces(layout.shards().size());
  for (const v1::CheckpointPart& part : saved.manifest.parts()) {
    WEIR_RETURN_IF_ERROR(ReadPart(saved.manifest, part, layout.shards(), pieces));
  }
  for (const v1::Variable& variable : saved.manifest.declaration().variables()) {
    saved.variables[variable.name()].is_parameter = variable.group() != 0;
  }
  for (const Shard& shard : layout.shards()) {
    Append(pieces[static_cast<uint64_t>(shard.id)],
           saved.variables[VariableOf(saved.manifest, shard).name()]);
  }
  return saved;
}

std::string Difference(const SavedCheckpoint& a, const SavedCheckpoint& b) {
  if (a.manifest.step() != b.manifest.step() || a.manifest.examples() != b.manifest.examples()) {
    return absl::StrCat("step ", a.manifest.step(), " with ", a.manifest.examples(),
                        " examples, and step ", b.manifest.step(), " with ", b.manifest.examples());
  }
  if (a.variables.size() != b.variables.size()) {
    return absl::StrCat(a.variables.size(), " and ", b.variables.size(), " variables");
  }
  for (const auto& [name, variable] : a.variables) {
    const auto other = b.variables.find(name);
    if (other == b.variables.end()) return absl::StrCat(name, " is in one only");
    const std::string difference = Difference(name, variable, other->second);
    if (!difference.empty()) return difference;
  }
  return "";
}

}  // namespace weir
