// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/manifest_store.h"
#include "common/executor.h"
#include "common/mutex.h"
#include "coordinator/serial_queue.h"
#include "weir/v1/coordinator.pb.h"

namespace weir {

// Shared by the catalog and whoever restores from it; immutable.
using SharedManifest = std::shared_ptr<const v1::Manifest>;

// The committed checkpoints of all jobs: known in memory, and on the disk through a ManifestStore,
// one operation after another on the executor, so that nobody waits for the disk under a lock.
// `done` is called from the executor. Thread-safe. Shared, because operations may end after its
// owner is gone.
class CheckpointCatalog : public std::enable_shared_from_this<CheckpointCatalog> {
 public:
  template <typename T>
  using Done = absl::AnyInvocable<void(T) &&>;

  // Reads what there is; waits for the disk. Both must outlive every operation.
  // Errors: those of FileSystem.
  static absl::StatusOr<std::shared_ptr<CheckpointCatalog>> Open(ManifestStore& store,
                                                                 Executor& executor);

  // Newest first: the manifest, or DATA_LOSS where it is damaged.
  std::vector<absl::StatusOr<SharedManifest>> List(const std::string& job) const;
  // Errors: NotFound; DataLoss.
  absl::StatusOr<SharedManifest> Find(const std::string& job, const std::string& id) const;
  std::vector<std::string> Jobs() const;
  // Unneeded parts that an earlier life left behind. Once.
  ManifestStore::Remains TakeRemains();

  // ManifestStore's operations. Begin fills in the id and answers it.
  void Begin(v1::Manifest planned, uint64_t term, Done<absl::StatusOr<std::string>> done);
  void Commit(v1::Manifest manifest, Done<absl::Status> done);
  void Abandon(const std::string& job, const std::string& id, Done<absl::Status> done);
  void Delete(const std::string& job, const std::string& id,
              Done<absl::StatusOr<v1::Manifest>> done);
  void Forget(const std::string& job, const std::string& id);

 private:
  struct Older {
    bool operator()(const std::string& a, const std::string& b) const;
  };
  using ById = std::map<std::string, absl::StatusOr<SharedManifest>, Older>;

  CheckpointCatalog(ManifestStore& store, Executor& executor);
  absl::Status LoadAll();

  ManifestStore& store_;
  const std::shared_ptr<SerialQueue> disk_;
  mutable Mutex mutex_;
  std::map<std::string, ById> jobs_ ABSL_GUARDED_BY(mutex_);
  ManifestStore::Remains remains_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
