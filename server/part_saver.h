// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/executor.h"
#include "common/file_system.h"
#include "server/parameter_server.h"
#include "server/snapshot.h"
#include "weir/v1/server_control.pb.h"

namespace weir {

// Saves this server's parts of checkpoints: takes the cut, then writes it slice by slice on an
// executor, at a bounded rate, and lets go of each chunk as soon as it is written. Training goes on
// meanwhile. Thread-safe.
class PartSaver {
 public:
  struct Options {
    FileSystem* files = nullptr;   // must outlive the executor's tasks, like the two below
    Executor* executor = nullptr;  // may be blocked for as long as a disk takes
    Clock* clock = nullptr;
    const std::atomic<bool>* stopping = nullptr;  // true: what is under way ends; null: never
    std::string root;                             // this server's checkpoint folder
    std::string server;                           // its name
    uint64_t bytes_per_second = 512 << 20;        // 0: as fast as it goes
    uint64_t slice_bytes = 8 << 20;               // written by one task
  };
  using Done = absl::AnyInvocable<void(absl::StatusOr<v1::SavePartReply>) &&>;

  // What is written, beside the snapshot.
  struct Cut {
    StoreSnapshot snapshot;
    std::vector<v1::DType> dtypes;  // by variable
  };

  explicit PartSaver(Options options);
  ~PartSaver();

  // SavePart. `done` is called once, on any thread.
  // Errors: NotFound - no such run here; Aborted - another attempt, a cut that could not be
  // completed, or a part of this job that is still being written; FailedPrecondition - the id has a
  // part; ResourceExhausted - no room; DeadlineExceeded; Unavailable - stopped; those of
  // PartWriter.
  void Save(ParameterServer& server, const v1::SavePartRequest& request, absl::Time deadline,
            Done done);
  // The second half of it.
  void Write(Cut cut, const v1::SavePartRequest& request, absl::Time deadline, Done done);

  // DropPart. Waits for the disk.
  // Errors: InvalidArgument - the folder's name; Aborted - it is being written; those of
  // FileSystem.
  absl::Status Drop(const v1::DropPartRequest& request);

 private:
  class BusyFolders;
  class Saving;

  const Options options_;
  const std::shared_ptr<BusyFolders> busy_;  // shared: a task under way outlives the saver
};

}  // namespace weir
