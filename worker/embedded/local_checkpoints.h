// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/manifest_store.h"
#include "common/clock.h"
#include "common/file_system.h"
#include "server/checkpoint_parts.h"
#include "server/parameter_server.h"
#include "weir/v1/coordinator.pb.h"
#include "worker/embedded/folder_lock.h"
#include "worker/embedded/local_ranges.h"

namespace weir {

// The checkpoints of a job in one process, by the same files and in the same order as a cluster's:
// docs/checkpoints.md. So either can go on from the other's. Every method may wait for the disk.
// Thread-compatible.
class LocalCheckpoints {
 public:
  struct Options {
    FileSystem* files = nullptr;  // must outlive this, like the clock
    Clock* clock = nullptr;
    std::string data_dir;  // not empty
    v1::JobSpec spec;      // as the user wrote it: goes into the manifest
  };

  // Where the job is when its cut is taken.
  struct Cut {
    v1::JobView view;                // with the cut's number
    std::vector<v1::CutMark> marks;  // what the worker's client has pushed before it
    uint64_t step = 0;               // the first one after it
    LocalRanges::Place data;         // where the data goes on
    uint64_t epoch_examples = 0;     // 0: there is no data
    std::map<std::string, double> metrics;
  };

  // As the user wrote it: the worker's steps are of this one, and not of the view's.
  const v1::JobSpec& spec() const { return options_.spec; }

  // Removes what an earlier life left unfinished. Errors: InvalidArgument - the job's name cannot
  // name a folder; FailedPrecondition - a job that lives uses data_dir; those of FileSystem.
  static absl::StatusOr<std::unique_ptr<LocalCheckpoints>> Open(Options options);

  // Takes the cut and commits a checkpoint; older ones beyond spec.checkpoint.keep go. Returns its
  // id. Errors: those of PartSaver::Save and of ManifestStore::Commit; then there is no checkpoint.
  absl::StatusOr<std::string> Save(ParameterServer& server, const Cut& cut);

  // How the job begins, by what it is asked and what its last run has come to: docs/checkpoints.md,
  // "Running a job again".
  struct Beginning {
    std::unique_ptr<v1::Manifest> source;  // null: initial values
    uint64_t run_id = 0;                   // of a run that has not ended, and goes on; 0: a new one
    uint64_t attempt = 1;
  };
  // Errors: FailedPrecondition - the last run has ended, or left checkpoints and no record, and
  // nothing is said of what is to be done now; DataLoss - what it has left of itself is damaged;
  // those of Source.
  absl::StatusOr<Beginning> Begin();
  // Keeps the view for the next life, without what only servers need. Errors: those of FileSystem.
  absl::Status Record(const v1::JobView& view);

  // The checkpoint that spec.resume asks for. Null: the job starts from initial values. `before`:
  // for `resume: auto`, only those older than this id, whose parts were damaged. Errors: NotFound,
  // DataLoss - the one asked for; FailedPrecondition - it is of a newer format.
  absl::StatusOr<std::unique_ptr<v1::Manifest>> Source(const std::string& before = "");

  // Fills the job's store, which waits for it in this view (RESTORING).
  // Errors: those of PartRestorer::Restore.
  absl::Status Restore(ParameterServer& server, const v1::JobView& view,
                       const v1::Manifest& manifest);

  // Where the data of a checkpoint goes on.
  static LocalRanges::Place DataOf(const v1::Manifest& manifest, uint64_t epoch_examples);

  // The name of the only server, in views and in parts.
  static constexpr char kServer[] = "local";

  // The newest intact one that the run has saved, or else the one that it began from; null: there
  // is none. `before`: older ones than this id.
  absl::StatusOr<std::unique_ptr<v1::Manifest>> NewestOf(const v1::JobView& run,
                                                         const std::string& before = "");

 private:
  // There is no other server to fetch from.
  class NoPeers;

  explicit LocalCheckpoints(Options options);
  absl::Status CheckNoneIsLeft();
  std::string RecordPath() const;
  // Of the last run of the job here; without a run's id: there has been none.
  absl::StatusOr<v1::JobView> LastRun();
  absl::StatusOr<v1::CheckpointPart> SavePart(ParameterServer& server, const Cut& cut,
                                              const v1::Manifest& planned);
  absl::Status Abandon(const std::string& id);
  absl::Status DropParts(const v1::Manifest& remains);
  void Prune();

  const Options options_;
  std::unique_ptr<FolderLock> lock_;
  const std::unique_ptr<PartTransport> peers_;
  ManifestStore manifests_;
  std::unique_ptr<CheckpointParts> parts_;
};

}  // namespace weir
