// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/chunk_record.h"
#include "checkpoint/part_folder.h"
#include "common/file_system.h"
#include "weir/v1/server_control.pb.h"

namespace rocksdb {
class SstFileWriter;
}  // namespace rocksdb

namespace weir {

// Writes one server's part of a checkpoint: docs/checkpoints.md. Destroyed before Finish has
// succeeded it removes what it wrote. Every method may wait for the disk. Used from one thread at a
// time.
class PartWriter {
 public:
  struct Options {
    FileSystem* files = nullptr;         // must outlive the writer
    std::string root;                    // the server's checkpoint folder
    std::string directory;               // "<job>/<id>"
    uint64_t expected_bytes = 0;         // of weights and slots: must fit the free space
    uint64_t file_bytes = 256ull << 20;  // a part is cut into files of about this size
  };

  // Errors: InvalidArgument - the directory's name; FailedPrecondition - the part exists: ids are
  // used once; ResourceExhausted - no room, with the numbers; and those of FileSystem.
  static absl::StatusOr<std::unique_ptr<PartWriter>> Create(Options options);
  ~PartWriter();

  // In rising order of (shard, chunk). Errors: InvalidArgument - out of order, or an ill-formed
  // record; ResourceExhausted, DataLoss - the disk.
  absl::Status Add(const ChunkRecord& record);

  // Makes the part durable under its name and says where it is and of what it consists: directory,
  // files, shards and ids are filled in. On an error there is no part.
  absl::StatusOr<v1::CheckpointPart> Finish();

  uint64_t bytes_written() const { return bytes_written_; }

 private:
  PartWriter(Options options, PartFolder folder);

  absl::Status OpenFile();
  absl::Status CloseFile();
  absl::Status LinkInto(const std::string& folder);
  absl::Status DescribeAndSync(const std::string& folder, v1::CheckpointPart& part);
  void RemoveFiles();

  const Options options_;
  const PartFolder folder_;
  std::unique_ptr<rocksdb::SstFileWriter> file_;  // open, or null
  std::vector<std::string> paths_;
  std::vector<uint64_t> shards_;
  uint64_t last_chunk_ = 0;
  uint64_t bytes_written_ = 0;
  uint64_t bytes_in_file_ = 0;
  std::string record_;  // reused
  bool finished_ = false;
};

}  // namespace weir
