// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/part_reader.h"
#include "common/file_system.h"
#include "common/mutex.h"
#include "weir/v1/server_control.pb.h"

namespace weir {

// Reads parts on this server's disk, for restores here and on other servers. A part's files are
// compared with their digests when it is opened; the last few stay open, as a restore asks shard by
// shard. Thread-safe; every method may wait for the disk.
class PartFetcher {
 public:
  // FetchPart is served from below `roots` alone. `files` must outlive the fetcher.
  PartFetcher(FileSystem& files, std::vector<std::string> roots);

  // Errors: PermissionDenied - a folder that is none of ours; those of Open; DataLoss - damage that
  // has come since the part was opened; and what `consume` answers.
  absl::Status Fetch(const v1::FetchPartRequest& request, PartReader::Consume consume);

  // For a restore on this server: any folder, since the coordinator says so.
  // Errors: NotFound - no such part here; DataLoss - a file is missing or damaged, it is named; and
  // those of FileSystem.
  absl::StatusOr<std::shared_ptr<const PartReader>> Open(
      const std::string& folder, const google::protobuf::RepeatedPtrField<v1::PartFile>& listed);
  // Lets go of what is open: the files' memory, and the space of parts that have been dropped.
  void Close();

 private:
  struct OpenPart {
    std::string key;
    std::shared_ptr<const PartReader> reader;  // shared: in use while another call drops it here
  };

  FileSystem& files_;
  const std::vector<std::string> roots_;
  Mutex mutex_;
  std::list<OpenPart> open_ ABSL_GUARDED_BY(mutex_);  // the most recently used first
};

}  // namespace weir
