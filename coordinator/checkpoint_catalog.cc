// SPDX-License-Identifier: Apache-2.0
#include "coordinator/checkpoint_catalog.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "checkpoint/manifest.h"
#include "common/status_macros.h"

namespace weir {

bool CheckpointCatalog::Older::operator()(const std::string& a, const std::string& b) const {
  return IsOlderCheckpoint(a, b);
}

CheckpointCatalog::CheckpointCatalog(ManifestStore& store, Executor& executor)
    : store_(store), disk_(std::make_shared<SerialQueue>(executor)) {}

absl::StatusOr<std::shared_ptr<CheckpointCatalog>> CheckpointCatalog::Open(ManifestStore& store,
                                                                           Executor& executor) {
  std::shared_ptr<CheckpointCatalog> catalog(new CheckpointCatalog(store, executor));
  WEIR_RETURN_IF_ERROR(catalog->LoadAll());
  return catalog;
}

absl::Status CheckpointCatalog::LoadAll() {
  WEIR_ASSIGN_OR_RETURN(ManifestStore::Remains remains, store_.Sweep());
  WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> jobs, store_.Jobs());
  std::map<std::string, ById> all;
  for (const std::string& job : jobs) {
    WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> ids, store_.List(job));
    for (const std::string& id : ids) {
      absl::StatusOr<v1::Manifest> manifest = store_.Load(job, id);
      if (manifest.ok()) {
        all[job].emplace(id, std::make_shared<const v1::Manifest>(*std::move(manifest)));
      } else {
        spdlog::warn("checkpoint not usable job={} id={}: {}", job, id,
                     std::string(manifest.status().message()));
        all[job].emplace(id, manifest.status());
      }
    }
  }
  MutexLock lock(mutex_);
  jobs_ = std::move(all);
  remains_ = std::move(remains);
  return absl::OkStatus();
}

std::vector<absl::StatusOr<SharedManifest>> CheckpointCatalog::List(const std::string& job) const {
  std::vector<absl::StatusOr<SharedManifest>> list;
  MutexLock lock(mutex_);
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return list;
  for (auto entry = found->second.rbegin(); entry != found->second.rend(); ++entry) {
    list.push_back(entry->second);
  }
  return list;
}

absl::StatusOr<SharedManifest> CheckpointCatalog::Find(const std::string& job,
                                                       const std::string& id) const {
  MutexLock lock(mutex_);
  const auto found = jobs_.find(job);
  if (found != jobs_.end()) {
    const auto entry = found->second.find(id);
    if (entry != found->second.end()) return entry->second;
  }
  return absl::NotFoundError(absl::StrCat("job '", job, "' has no checkpoint '", id, "'"));
}

std::vector<std::string> CheckpointCatalog::Jobs() const {
  std::vector<std::string> names;
  MutexLock lock(mutex_);
  for (const auto& [job, ids] : jobs_) names.push_back(job);
  return names;
}

ManifestStore::Remains CheckpointCatalog::TakeRemains() {
  MutexLock lock(mutex_);
  return std::exchange(remains_, {});
}

void CheckpointCatalog::Begin(v1::Manifest planned, uint64_t term,
                              Done<absl::StatusOr<std::string>> done) {
  disk_->Run([self = shared_from_this(), planned = std::move(planned), term,
              done = std::move(done)]() mutable {
    absl::StatusOr<std::string> id = self->store_.NextId(planned.job(), term);
    if (id.ok()) {
      planned.set_id(*id);
      const absl::Status begun = self->store_.Begin(planned);
      if (!begun.ok()) id = begun;
    }
    std::move(done)(std::move(id));
  });
}

void CheckpointCatalog::Commit(v1::Manifest manifest, Done<absl::Status> done) {
  disk_->Run([self = shared_from_this(), manifest = std::move(manifest),
              done = std::move(done)]() mutable {
    const absl::Status committed = self->store_.Commit(manifest);
    if (committed.ok()) {
      MutexLock lock(self->mutex_);
      self->jobs_[manifest.job()].emplace(manifest.id(),
                                          std::make_shared<const v1::Manifest>(manifest));
    }
    std::move(done)(committed);
  });
}

void CheckpointCatalog::Abandon(const std::string& job, const std::string& id,
                                Done<absl::Status> done) {
  disk_->Run([self = shared_from_this(), job, id, done = std::move(done)]() mutable {
    std::move(done)(self->store_.Abandon(job, id));
  });
}

void CheckpointCatalog::Delete(const std::string& job, const std::string& id,
                               Done<absl::StatusOr<v1::Manifest>> done) {
  disk_->Run([self = shared_from_this(), job, id, done = std::move(done)]() mutable {
    absl::StatusOr<v1::Manifest> deleted = self->store_.Delete(job, id);
    if (deleted.ok()) {
      MutexLock lock(self->mutex_);
      self->jobs_[job].erase(id);
    }
    std::move(done)(std::move(deleted));
  });
}

void CheckpointCatalog::Forget(const std::string& job, const std::string& id) {
  disk_->Run([self = shared_from_this(), job, id] {
    const absl::Status forgotten = self->store_.Forget(job, id);
    if (!forgotten.ok()) {
      spdlog::warn("left to the next sweep job={} checkpoint={}: {}", job, id,
                   std::string(forgotten.message()));
    }
  });
}

}  // namespace weir
