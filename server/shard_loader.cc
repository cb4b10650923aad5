// SPDX-License-Identifier: Apache-2.0
#include "server/shard_loader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "checkpoint/chunk_record.h"
#include "common/status_macros.h"

namespace weir {
namespace {

absl::Status Annotate(const absl::Status& status, const Shard& shard, absl::string_view variable) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("shard ", static_cast<uint64_t>(shard.id),
                                                  " of '", variable, "': ", status.message()));
}

absl::Status LoadRecord(ParameterStore& store, const LocalShard& local, uint64_t chunk,
                        absl::string_view bytes) {
  WEIR_ASSIGN_OR_RETURN(const ChunkRecord record,
                        DecodeChunkRecord(bytes, absl::StrCat("the record of chunk ", chunk)));
  WEIR_RETURN_IF_ERROR(CheckChunkRecord(record, local.shard, chunk, local.variable->dtype));
  if (!record.initialised) return absl::OkStatus();
  return store.LoadChunk(local.shard.id, chunk,
                         {.version = record.version,
                          .examples = record.examples,
                          .weights = record.weights,
                          .slots = record.slots});
}

}  // namespace

absl::StatusOr<ShardLoader> ShardLoader::Create(const Options& options) {
  ShardLoader loader(options);
  for (int part = 0; part < options.request->parts_size(); ++part) {
    const v1::CheckpointPart& saved = options.request->parts(part);
    for (int position = 0; position < saved.shards_size(); ++position) {
      WEIR_ASSIGN_OR_RETURN(std::string id, HolderOfShard(saved, position));
      Source source{.part = part, .id = std::move(id)};
      if (!loader.sources_.emplace(saved.shards(position), std::move(source)).second) {
        return absl::DataLossError(absl::StrCat("checkpoint ", options.request->checkpoint_id(),
                                                " has shard ", saved.shards(position), " twice"));
      }
    }
  }
  return loader;
}

absl::Status ShardLoader::Load(ParameterStore& store, const LocalShard& local) {
  const auto source = sources_.find(static_cast<uint64_t>(local.shard.id));
  if (source == sources_.end()) {
    return Annotate(absl::DataLossError(absl::StrCat("no part of checkpoint ",
                                                     options_.request->checkpoint_id(), " has it")),
                    local.shard, local.variable->name);
  }
  uint64_t next = 0;
  absl::Status status =
      Read(source->second, local.shard.id, [&](uint64_t chunk, absl::string_view record) {
        // In order and without a gap, so that counting them is enough.
        if (chunk != next) {
          return absl::DataLossError(absl::StrCat("chunk ", next, " is missing"));
        }
        ++next;
        return LoadRecord(store, local, chunk, record);
      });
  if (status.ok() && next != local.shard.num_chunks()) {
    status = absl::DataLossError(
        absl::StrCat("it has ", next, " chunks and should have ", local.shard.num_chunks()));
  }
  return Annotate(status, local.shard, local.variable->name);
}

absl::Status ShardLoader::Read(const Source& source, ShardId shard, PartReader::Consume consume) {
  const v1::CheckpointPart& part = options_.request->parts(source.part);
  absl::StatusOr<std::shared_ptr<const PartReader>> reader =
      options_.local->Open(part.directory(), part.files());
  if (absl::IsNotFound(reader.status())) return ReadFromPeer(source, shard, consume);
  if (!reader.ok()) return reader.status();
  return (*reader)->ReadShard(source.id, shard, consume);
}

absl::Status ShardLoader::ReadFromPeer(const Source& source, ShardId shard,
                                       PartReader::Consume consume) {
  const v1::CheckpointPart& part = options_.request->parts(source.part);
  if (part.server() == options_.server) {
    return absl::DataLossError(absl::StrCat("the part ", part.directory(), " is gone"));
  }
  const std::string address = source.part < options_.request->fetch_addresses_size()
                                  ? options_.request->fetch_addresses(source.part)
                                  : "";
  if (address.empty()) {
    return absl::UnavailableError(
        absl::StrCat("the part ", part.directory(), " of server ", part.server(),
                     " is not on this machine, and that server is not running"));
  }
  v1::FetchPartRequest request;
  request.set_term(options_.request->term());
  request.set_directory(part.directory());
  request.set_shard(static_cast<uint64_t>(shard));
  request.set_id(source.id);
  *request.mutable_files() = part.files();
  const absl::Status status = options_.peers->Fetch(address, request, options_.deadline, consume);
  if (!absl::IsNotFound(status)) return status;
  return absl::DataLossError(absl::StrCat("the part ", part.directory(), " is gone from server ",
                                          part.server(), ": ", status.message()));
}

}  // namespace weir
