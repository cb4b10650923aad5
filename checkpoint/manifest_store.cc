// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/manifest_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "checkpoint/manifest.h"
#include "checkpoint/preamble.h"
#include "common/status_macros.h"

namespace weir {
namespace {

constexpr absl::string_view kCommitted = ".manifest";
constexpr absl::string_view kAnnounced = ".saving";
constexpr absl::string_view kDropped = ".dropped";
constexpr uint64_t kMaxManifestBytes = uint64_t{1} << 30;

absl::StatusOr<v1::Manifest> LoadFile(FileSystem& files, const std::string& path) {
  WEIR_ASSIGN_OR_RETURN(const std::string bytes, files.ReadFile(path, kMaxManifestBytes));
  return DecodeManifest(bytes, path);
}

}  // namespace

ManifestStore::ManifestStore(FileSystem& files, std::string folder)
    : files_(files), folder_(std::move(folder)) {}

absl::StatusOr<std::string> ManifestStore::PathOf(absl::string_view job, absl::string_view id,
                                                  absl::string_view suffix) const {
  WEIR_RETURN_IF_ERROR(CheckFolderName("job", job));
  WEIR_RETURN_IF_ERROR(CheckpointNumber(id).status());
  return absl::StrCat(folder_, "/", job, "/", id, suffix);
}

absl::Status ManifestStore::RemoveDurably(const std::string& path) {
  if (!files_.Exists(path)) return absl::OkStatus();
  WEIR_RETURN_IF_ERROR(files_.RemoveFile(path));
  return files_.SyncFolder(FolderOf(path));
}

absl::StatusOr<ManifestStore::Remains> ManifestStore::Sweep() {
  Remains remains;
  WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> jobs, Jobs());
  for (const std::string& job : jobs) WEIR_RETURN_IF_ERROR(SweepJob(job, remains));
  return remains;
}

absl::Status ManifestStore::SweepJob(const std::string& job, Remains& remains) {
  const std::string folder = absl::StrCat(folder_, "/", job);
  WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(folder));
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(folder, "/", name);
    absl::string_view id = name;
    if (absl::EndsWith(name, kUnfinishedSuffix)) {
      WEIR_RETURN_IF_ERROR(files_.RemoveFile(path));
      continue;
    }
    const bool announced = absl::ConsumeSuffix(&id, kAnnounced);
    if (!announced && !absl::ConsumeSuffix(&id, kDropped)) continue;
    // An announcement that is damaged was never durable, so no server was asked for a part of it;
    // one with a manifest was committed just before the crash.
    absl::StatusOr<v1::Manifest> manifest = LoadFile(files_, path);
    const bool committed = files_.Exists(absl::StrCat(folder, "/", id, kCommitted));
    if (!manifest.ok() || (announced && committed)) {
      WEIR_RETURN_IF_ERROR(files_.RemoveFile(path));
      continue;
    }
    remains.push_back(*std::move(manifest));
  }
  return files_.SyncFolder(folder);
}

absl::StatusOr<std::string> ManifestStore::NextId(absl::string_view job, uint64_t term) {
  WEIR_RETURN_IF_ERROR(CheckFolderName("job", job));
  const std::string folder = absl::StrCat(folder_, "/", job);
  uint64_t newest = 0;
  if (files_.Exists(folder)) {
    WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(folder));
    for (const std::string& name : names) {
      const absl::StatusOr<uint64_t> number = CheckpointNumber(name.substr(0, name.find('.')));
      if (number.ok()) newest = std::max(newest, *number);
    }
  }
  // An id that failed and was forgotten must not come again in one life of the coordinator.
  uint64_t& last = last_number_[std::string(job)];
  last = std::max(last, newest) + 1;
  return CheckpointId(last, term);
}

absl::Status ManifestStore::Begin(const v1::Manifest& planned) {
  WEIR_ASSIGN_OR_RETURN(const std::string path, PathOf(planned.job(), planned.id(), kAnnounced));
  WEIR_RETURN_IF_ERROR(files_.CreateFolder(FolderOf(path)));
  return files_.WriteDurably(path, EncodeManifest(planned));
}

absl::Status ManifestStore::Commit(v1::Manifest manifest) {
  manifest.set_format(kCheckpointFormat);
  WEIR_RETURN_IF_ERROR(CheckManifest(manifest));
  WEIR_ASSIGN_OR_RETURN(const std::string path, PathOf(manifest.job(), manifest.id(), kCommitted));
  WEIR_ASSIGN_OR_RETURN(const std::string announced,
                        PathOf(manifest.job(), manifest.id(), kAnnounced));
  if (!files_.Exists(announced)) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint ", manifest.id(), " of job ", manifest.job(), " was not begun"));
  }
  const std::string unfinished = absl::StrCat(path, kUnfinishedSuffix);
  WEIR_RETURN_IF_ERROR(files_.WriteFile(unfinished, EncodeManifest(manifest)));
  WEIR_RETURN_IF_ERROR(files_.SyncFile(unfinished));
  WEIR_RETURN_IF_ERROR(files_.Rename(unfinished, path));
  WEIR_RETURN_IF_ERROR(files_.SyncFolder(FolderOf(path)));
  // Committed: what fails from here on is left to the next sweep.
  files_.RemoveFile(announced).IgnoreError();
  return absl::OkStatus();
}

absl::Status ManifestStore::Abandon(absl::string_view job, absl::string_view id) {
  WEIR_ASSIGN_OR_RETURN(const std::string path, PathOf(job, id, kCommitted));
  WEIR_ASSIGN_OR_RETURN(const std::string announced, PathOf(job, id, kAnnounced));
  if (!files_.Exists(announced)) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint ", id, " of job ", job, " is not being saved"));
  }
  WEIR_RETURN_IF_ERROR(RemoveDurably(absl::StrCat(path, kUnfinishedSuffix)));
  return RemoveDurably(path);
}

absl::StatusOr<v1::Manifest> ManifestStore::Delete(absl::string_view job, absl::string_view id) {
  WEIR_ASSIGN_OR_RETURN(v1::Manifest manifest, Load(job, id));
  WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> ids, List(job));
  const bool another = std::any_of(ids.begin(), ids.end(), [&](const std::string& other) {
    return other != id && Load(job, other).ok();
  });
  if (!another) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint ", id, " is the last intact one of job ", job, "; it stays"));
  }
  WEIR_ASSIGN_OR_RETURN(const std::string path, PathOf(job, id, kCommitted));
  WEIR_ASSIGN_OR_RETURN(const std::string dropped, PathOf(job, id, kDropped));
  WEIR_RETURN_IF_ERROR(files_.Rename(path, dropped));
  WEIR_RETURN_IF_ERROR(files_.SyncFolder(FolderOf(path)));
  return manifest;
}

absl::Status ManifestStore::Forget(absl::string_view job, absl::string_view id) {
  for (const absl::string_view suffix : {kAnnounced, kDropped}) {
    WEIR_ASSIGN_OR_RETURN(const std::string path, PathOf(job, id, suffix));
    WEIR_RETURN_IF_ERROR(RemoveDurably(path));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ManifestStore::Jobs() {
  std::vector<std::string> jobs;
  if (!files_.Exists(folder_)) return jobs;
  WEIR_ASSIGN_OR_RETURN(jobs, files_.List(folder_));
  const auto is_no_job = [&](const std::string& name) {
    return !CheckFolderName("job", name).ok() ||
           !files_.List(absl::StrCat(folder_, "/", name)).ok();
  };
  jobs.erase(std::remove_if(jobs.begin(), jobs.end(), is_no_job), jobs.end());
  return jobs;
}

absl::StatusOr<std::vector<std::string>> ManifestStore::List(absl::string_view job) {
  WEIR_RETURN_IF_ERROR(CheckFolderName("job", job));
  std::vector<std::string> ids;
  const std::string folder = absl::StrCat(folder_, "/", job);
  if (!files_.Exists(folder)) return ids;
  WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(folder));
  for (absl::string_view name : names) {
    if (absl::ConsumeSuffix(&name, kCommitted) && CheckpointNumber(name).ok()) {
      ids.emplace_back(name);
    }
  }
  std::sort(ids.begin(), ids.end(),
            [](const std::string& a, const std::string& b) { return IsOlderCheckpoint(b, a); });
  return ids;
}

absl::StatusOr<v1::Manifest> ManifestStore::Load(absl::string_view job, absl::string_view id) {
  WEIR_ASSIGN_OR_RETURN(const std::string path, PathOf(job, id, kCommitted));
  if (!files_.Exists(path)) {
    return absl::NotFoundError(absl::StrCat("job ", job, " has no checkpoint ", id));
  }
  WEIR_ASSIGN_OR_RETURN(v1::Manifest manifest, LoadFile(files_, path));
  if (manifest.job() != job || manifest.id() != id) {
    return absl::DataLossError(
        absl::StrCat(path, " holds checkpoint ", manifest.id(), " of job ", manifest.job()));
  }
  return manifest;
}

absl::StatusOr<v1::Manifest> ManifestStore::Latest(absl::string_view job) {
  WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> ids, List(job));
  if (ids.empty()) return absl::NotFoundError(absl::StrCat("job ", job, " has no checkpoint"));
  return Load(job, ids.front());
}

absl::StatusOr<ManifestStore::LatestManifest> ManifestStore::LatestIntact(
    absl::string_view job, absl::string_view before) {
  WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> ids, List(job));
  LatestManifest latest;
  for (const std::string& id : ids) {
    if (!before.empty() && !IsOlderCheckpoint(id, before)) continue;
    absl::StatusOr<v1::Manifest> manifest = Load(job, id);
    if (manifest.ok()) {
      latest.manifest = *std::move(manifest);
      return latest;
    }
    if (!absl::IsDataLoss(manifest.status())) return manifest.status();
    latest.damaged.push_back(manifest.status());
  }
  return absl::NotFoundError(absl::StrCat(
      "job ", job, " has no intact checkpoint", latest.damaged.empty() ? "" : "; the newest: ",
      latest.damaged.empty() ? "" : latest.damaged.front().message()));
}

}  // namespace weir
