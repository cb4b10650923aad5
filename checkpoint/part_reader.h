// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/file_system.h"
#include "sharding/layout.h"
#include "weir/v1/server_control.pb.h"

namespace rocksdb {
class DB;
}  // namespace rocksdb

namespace weir {

// Reads a part of a checkpoint. Thread-safe; every method may wait for the disk.
class PartReader {
 public:
  // Called with each chunk's number and record, by rising number. An error ends the reading.
  using Consume = absl::FunctionRef<absl::Status(uint64_t chunk, absl::string_view record)>;

  // Compares size and digest of every listed file first. `folder` is where the part is now.
  // Errors: NotFound - there is no such folder here; DataLoss - a file is missing or damaged: it is
  // named.
  static absl::StatusOr<std::unique_ptr<PartReader>> Open(
      FileSystem& files, const std::string& folder,
      const google::protobuf::RepeatedPtrField<v1::PartFile>& listed);
  ~PartReader();

  // The records of a shard that the checkpoint `id` wrote, all that there are: whoever knows the
  // layout checks that none is missing, and what is in them. Errors: DataLoss - damage that has
  // come since Open; and what `consume` answers.
  absl::Status ReadShard(absl::string_view id, ShardId shard, Consume consume) const;

  const std::string& folder() const { return folder_; }

 private:
  PartReader(std::string folder, std::unique_ptr<rocksdb::DB> db);

  const std::string folder_;
  const std::unique_ptr<rocksdb::DB> db_;
};

// The id whose keys hold a shard of a part: by position in part.shards. DataLoss: the part is
// inconsistent.
absl::StatusOr<std::string> HolderOfShard(const v1::CheckpointPart& part, int position);

}  // namespace weir
