// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/file_system.h"
#include "weir/v1/coordinator.pb.h"

namespace weir {

// The coordinator's folder of manifests, one folder a job: docs/checkpoints.md. A checkpoint exists
// when its manifest does. Thread-compatible; every method may wait for the disk.
//
// Errors of every method: those of FileSystem; and, where it takes a job or an id, InvalidArgument
// - it cannot name a file (CheckFolderName, CheckpointNumber). Each method lists what it adds.
//
//   Begin -> (SavePart on the servers) -> Commit                        the life of a checkpoint
//                                     \-> (DropPart) -> Forget          ... that failed
//   Delete -> (DropPart) -> Forget                                      ... that is old
class ManifestStore {
 public:
  // Of checkpoints that were not committed, or are deleted: their parts are to be dropped by
  // DropPart to each `parts[i].server`, then they are to be forgotten.
  using Remains = std::vector<v1::Manifest>;

  struct LatestManifest {
    v1::Manifest manifest;
    std::vector<absl::Status> damaged;  // newer ones that were passed over, newest first
  };

  // `folder` holds one folder a job. `files` must outlive the store.
  ManifestStore(FileSystem& files, std::string folder);

  // Once, before anything else: removes what a crash left half written. Damaged announcements are
  // no error: they go.
  absl::StatusOr<Remains> Sweep();

  // An id newer than every one that the job's folder knows, unique under a rising `term`.
  absl::StatusOr<std::string> NextId(absl::string_view job, uint64_t term);

  // Announces a checkpoint: `planned` has id, job, run, and parts with server and directory. Before
  // the first SavePart.
  absl::Status Begin(const v1::Manifest& planned);
  // Commits; fills in `format`. On an error the checkpoint does not exist, unless a crash now lets
  // the disk decide: keep its parts until Abandon has returned. Errors: InvalidArgument - the
  // manifest is not whole (CheckManifest); FailedPrecondition - it was not begun.
  absl::Status Commit(v1::Manifest manifest);
  // After a failed save or Commit: the checkpoint certainly does not exist. Then DropPart, then
  // Forget. Errors: FailedPrecondition - it is not being saved: not begun, or committed.
  absl::Status Abandon(absl::string_view job, absl::string_view id);

  // Makes a committed checkpoint none, and answers what it was. Then DropPart, then Forget.
  // Errors: those of Load; FailedPrecondition - it is the job's last intact one.
  absl::StatusOr<v1::Manifest> Delete(absl::string_view job, absl::string_view id);
  // All its parts are gone. Idempotent.
  absl::Status Forget(absl::string_view job, absl::string_view id);

  // Names of jobs that have a folder here, sorted.
  absl::StatusOr<std::vector<std::string>> Jobs();
  // Ids of committed checkpoints, newest first; none for an unknown job.
  absl::StatusOr<std::vector<std::string>> List(absl::string_view job);
  // Errors: NotFound - names job and id; DataLoss - damaged, or another's under this name;
  // FailedPrecondition - of a newer format; ResourceExhausted - larger than 1 GiB.
  absl::StatusOr<v1::Manifest> Load(absl::string_view job, absl::string_view id);
  // The newest committed one, whatever its state (`resume: latest`).
  // Errors: NotFound - there is none; and those of Load.
  absl::StatusOr<v1::Manifest> Latest(absl::string_view job);
  // The newest whose manifest is intact (`resume: auto`). `before`: only those older than this id
  // (whose parts turned out damaged); empty: all. Errors: NotFound - there is none, with the
  // newest's damage; and those of Load, but for DataLoss.
  absl::StatusOr<LatestManifest> LatestIntact(absl::string_view job, absl::string_view before = "");

 private:
  absl::StatusOr<std::string> PathOf(absl::string_view job, absl::string_view id,
                                     absl::string_view suffix) const;
  absl::Status SweepJob(const std::string& job, Remains& remains);
  absl::Status RemoveDurably(const std::string& path);

  FileSystem& files_;
  const std::string folder_;
  absl::flat_hash_map<std::string, uint64_t> last_number_;  // given out, by job
};

}  // namespace weir
