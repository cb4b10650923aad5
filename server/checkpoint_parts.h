// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/executor.h"
#include "common/file_system.h"
#include "server/part_fetcher.h"
#include "server/part_restorer.h"
#include "server/part_saver.h"
#include "server/part_transport.h"

namespace weir {

// A server's checkpoint folder, and who saves to it, restores from it and reads it for others, each
// on threads of its own: two servers that restore from each other must not wait for one another's
// threads. Thread-safe.
class CheckpointParts {
 public:
  struct Options {
    FileSystem* files = nullptr;  // must outlive the parts, like the two below
    Clock* clock = nullptr;
    PartTransport* peers = nullptr;
    std::string root;                       // this server's checkpoint folder, absolute
    std::string server;                     // its name
    uint64_t bytes_per_second = 512 << 20;  // of a save; 0: as fast as it goes
  };

  // Sweeps the folder. Waits for the disk. Errors: InvalidArgument - the server's name cannot name
  // a folder; those of FileSystem.
  static absl::StatusOr<std::unique_ptr<CheckpointParts>> Open(Options options);
  ~CheckpointParts();

  PartSaver& saver() { return saver_; }
  PartRestorer& restorer() { return restorer_; }
  PartFetcher& fetcher() { return fetcher_; }
  // For Fetch and Drop, which block.
  Executor& serving() { return *serving_; }

  // What is under way ends soon, with Unavailable.
  void Stop() { stopping_ = true; }

 private:
  explicit CheckpointParts(const Options& options);

  std::atomic<bool> stopping_{false};
  // Used by the tasks of the executors, which end before it does.
  PartFetcher fetcher_;
  const std::unique_ptr<Executor> saving_;
  const std::unique_ptr<Executor> restoring_;
  const std::unique_ptr<Executor> serving_;
  PartSaver saver_;
  PartRestorer restorer_;
};

}  // namespace weir
