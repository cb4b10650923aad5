// SPDX-License-Identifier: Apache-2.0
#include "worker/embedded/local_checkpoints.h"

#include <google/protobuf/text_format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "checkpoint/manifest.h"
#include "common/notification.h"
#include "common/status_macros.h"
#include "rpc/job_state.h"
#include "rpc/resume_point.h"
#include "rpc/run_again.h"

namespace weir {
namespace {

// No coordinator, no term; ids of a cluster that takes the job over are newer by their number.
constexpr uint64_t kTerm = 0;

// The files of a save may take as long as the disk needs: nobody else waits for them.
absl::Time NoDeadline() {
  return absl::InfiniteFuture();
}

// Waits for the one answer of a call that answers through a callback.
template <typename Result, typename Start>
absl::StatusOr<Result> Await(Start start) {
  Notification answered;
  absl::StatusOr<Result> result;
  start([&](absl::StatusOr<Result> got) {
    result = std::move(got);
    answered.Notify();
  });
  answered.Wait();
  return result;
}

std::string Absolute(const std::string& folder) {
  return std::filesystem::absolute(folder).lexically_normal().string();
}

}  // namespace

class LocalCheckpoints::NoPeers final : public PartTransport {
 public:
  absl::Status Fetch(const std::string& address, const v1::FetchPartRequest& request, absl::Time,
                     PartReader::Consume) override {
    return absl::UnavailableError(
        absl::StrCat("a local job cannot ask ", address, " for ", request.directory()));
  }
};

LocalCheckpoints::LocalCheckpoints(Options options)
    : options_(std::move(options)),
      peers_(std::make_unique<NoPeers>()),
      manifests_(*options_.files, absl::StrCat(Absolute(options_.data_dir), "/checkpoints")) {}

absl::StatusOr<std::unique_ptr<LocalCheckpoints>> LocalCheckpoints::Open(Options options) {
  WEIR_RETURN_IF_ERROR(CheckFolderName("job", options.spec.name()));
  std::unique_ptr<LocalCheckpoints> local(new LocalCheckpoints(std::move(options)));
  const std::string folder = absl::StrCat(Absolute(local->options_.data_dir), "/checkpoints");
  WEIR_RETURN_IF_ERROR(local->options_.files->CreateFolder(folder));
  WEIR_ASSIGN_OR_RETURN(local->lock_, FolderLock::Take(folder));
  CheckpointParts::Options parts;
  parts.files = local->options_.files;
  parts.clock = local->options_.clock;
  parts.peers = local->peers_.get();
  parts.root = absl::StrCat(folder, "/", kServer);
  parts.server = kServer;
  WEIR_ASSIGN_OR_RETURN(local->parts_, CheckpointParts::Open(parts));
  WEIR_ASSIGN_OR_RETURN(const ManifestStore::Remains remains, local->manifests_.Sweep());
  for (const v1::Manifest& manifest : remains) WEIR_RETURN_IF_ERROR(local->DropParts(manifest));
  return local;
}

absl::Status LocalCheckpoints::DropParts(const v1::Manifest& remains) {
  for (const v1::CheckpointPart& part : remains.parts()) {
    // A cluster that used this folder drops its servers' parts itself.
    if (part.server() != kServer) return absl::OkStatus();
    v1::DropPartRequest request;
    request.set_directory(absl::StrCat(remains.job(), "/", remains.id()));
    WEIR_RETURN_IF_ERROR(parts_->saver().Drop(request));
  }
  return manifests_.Forget(remains.job(), remains.id());
}

absl::Status LocalCheckpoints::Abandon(const std::string& id) {
  const std::string& job = options_.spec.name();
  WEIR_RETURN_IF_ERROR(manifests_.Abandon(job, id));
  v1::DropPartRequest request;
  request.set_directory(absl::StrCat(job, "/", id));
  WEIR_RETURN_IF_ERROR(parts_->saver().Drop(request));
  return manifests_.Forget(job, id);
}

absl::StatusOr<v1::CheckpointPart> LocalCheckpoints::SavePart(ParameterServer& server,
                                                              const Cut& cut,
                                                              const v1::Manifest& planned) {
  v1::SavePartRequest request;
  request.set_run_id(cut.view.run_id());
  request.set_attempt(cut.view.attempt());
  request.set_cut(cut.view.cut());
  request.set_checkpoint_id(planned.id());
  request.set_directory(absl::StrCat(planned.job(), "/", planned.id()));
  for (const v1::CutMark& mark : cut.marks) *request.add_marks() = mark;
  WEIR_ASSIGN_OR_RETURN(v1::SavePartReply reply,
                        Await<v1::SavePartReply>([&](PartSaver::Done done) {
                          parts_->saver().Save(server, request, NoDeadline(), std::move(done));
                        }));
  return std::move(*reply.mutable_part());
}

absl::StatusOr<std::string> LocalCheckpoints::Save(ParameterServer& server, const Cut& cut) {
  v1::Manifest manifest;
  manifest.set_job(options_.spec.name());
  manifest.set_run_id(cut.view.run_id());
  manifest.set_attempt(cut.view.attempt());
  manifest.set_created_unix_ms(
      static_cast<uint64_t>(absl::ToUnixMillis(options_.clock->WallNow())));
  *manifest.mutable_spec() = options_.spec;
  *manifest.mutable_declaration() = cut.view.declaration();
  *manifest.mutable_shard_map() = cut.view.shard_map();
  manifest.set_cut(cut.view.cut());
  manifest.set_step(cut.step);
  manifest.mutable_metrics()->insert(cut.metrics.begin(), cut.metrics.end());
  if (cut.epoch_examples > 0) {
    manifest.set_next_epoch(cut.data.position / cut.epoch_examples);
    manifest.set_next_position(cut.data.position % cut.epoch_examples);
  }
  for (const DataRange& range : cut.data.unfinished) {
    v1::DataRange& unfinished = *manifest.add_unfinished();
    unfinished.set_epoch(range.epoch);
    unfinished.set_first(range.first);
    unfinished.set_end(range.end);
  }
  WEIR_ASSIGN_OR_RETURN(const std::string id, manifests_.NextId(manifest.job(), kTerm));
  manifest.set_id(id);
  manifest.add_parts()->set_server(kServer);
  WEIR_RETURN_IF_ERROR(manifests_.Begin(manifest));
  absl::StatusOr<v1::CheckpointPart> part = SavePart(server, cut, manifest);
  absl::Status status = part.status();
  if (status.ok()) {
    manifest.set_examples(part->examples());
    *manifest.mutable_group_steps() = part->group_steps();
    *manifest.mutable_parts(0) = *std::move(part);
    status = manifests_.Commit(manifest);
  }
  if (!status.ok()) {
    const absl::Status abandoned = Abandon(id);
    if (!abandoned.ok()) spdlog::warn("left to the next start: {}", abandoned.ToString());
    return status;
  }
  Prune();
  return id;
}

void LocalCheckpoints::Prune() {
  const uint32_t wanted = options_.spec.checkpoint().keep();
  const size_t keep = wanted > 0 ? wanted : kDefaultKeep;
  const absl::StatusOr<std::vector<std::string>> ids = manifests_.List(options_.spec.name());
  for (size_t i = keep; ids.ok() && i < ids->size(); ++i) {
    const absl::StatusOr<v1::Manifest> old = manifests_.Delete(options_.spec.name(), (*ids)[i]);
    const absl::Status dropped = old.ok() ? DropParts(*old) : old.status();
    if (!dropped.ok()) spdlog::warn("checkpoint stays id={}: {}", (*ids)[i], dropped.ToString());
  }
}

absl::StatusOr<std::unique_ptr<v1::Manifest>> LocalCheckpoints::Source(const std::string& before) {
  const std::string& job = options_.spec.name();
  const std::string& resume = options_.spec.resume();
  if (resume.empty()) return std::unique_ptr<v1::Manifest>();
  if (resume == "auto") {
    absl::StatusOr<ManifestStore::LatestManifest> latest = manifests_.LatestIntact(job, before);
    if (latest.ok()) {
      for (const absl::Status& damaged : latest->damaged) {
        spdlog::warn("checkpoint passed over: {}", std::string(damaged.message()));
      }
      return std::make_unique<v1::Manifest>(std::move(latest->manifest));
    }
    if (!absl::IsNotFound(latest.status())) return latest.status();
    WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> ids, manifests_.List(job));
    if (!ids.empty()) return absl::DataLossError(std::string(latest.status().message()));
    return std::unique_ptr<v1::Manifest>();
  }
  WEIR_ASSIGN_OR_RETURN(v1::Manifest manifest,
                        resume == "latest" ? manifests_.Latest(job) : manifests_.Load(job, resume));
  return std::make_unique<v1::Manifest>(std::move(manifest));
}

absl::StatusOr<std::unique_ptr<v1::Manifest>> LocalCheckpoints::NewestOf(
    const v1::JobView& run, const std::string& before) {
  const std::string& job = options_.spec.name();
  WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> ids, manifests_.List(job));
  for (const std::string& id : ids) {
    if (!before.empty() && !IsOlderCheckpoint(id, before)) continue;
    absl::StatusOr<v1::Manifest> manifest = manifests_.Load(job, id);
    if (manifest.ok() &&
        (manifest->run_id() == run.run_id() || id == run.resume().checkpoint_id())) {
      return std::make_unique<v1::Manifest>(*std::move(manifest));
    }
    if (manifest.ok()) continue;
    if (!absl::IsDataLoss(manifest.status())) return manifest.status();
    spdlog::warn("checkpoint passed over: {}", std::string(manifest.status().message()));
  }
  return std::unique_ptr<v1::Manifest>();
}

absl::StatusOr<LocalCheckpoints::Beginning> LocalCheckpoints::Begin() {
  Beginning beginning;
  const v1::JobSpec& spec = options_.spec;
  if (!spec.resume().empty() || spec.replace()) {
    WEIR_ASSIGN_OR_RETURN(beginning.source, Source());
    return beginning;
  }
  WEIR_ASSIGN_OR_RETURN(const v1::JobView last, LastRun());
  if (last.run_id() == 0) {
    WEIR_RETURN_IF_ERROR(CheckNoneIsLeft());
    return beginning;
  }
  WEIR_ASSIGN_OR_RETURN(beginning.source, NewestOf(last));
  if (HasEnded(last.state())) {
    WEIR_RETURN_IF_ERROR(CheckMayBeForgotten(last, beginning.source.get()));
    return beginning;
  }
  beginning.run_id = last.run_id();
  beginning.attempt = last.attempt() + 1;
  return beginning;
}

// Of a cluster's runs, say, which leaves no record here.
absl::Status LocalCheckpoints::CheckNoneIsLeft() {
  const auto newest = manifests_.LatestIntact(options_.spec.name());
  if (newest.ok()) return CheckMayBeForgotten(newest->manifest);
  return absl::IsNotFound(newest.status()) ? absl::OkStatus() : newest.status();
}

std::string LocalCheckpoints::RecordPath() const {
  return absl::StrCat(Absolute(options_.data_dir), "/checkpoints/", options_.spec.name(),
                      "/local.run");
}

absl::StatusOr<v1::JobView> LocalCheckpoints::LastRun() {
  constexpr uint64_t kMostBytes = 1 << 20;
  const std::string path = RecordPath();
  v1::JobView view;
  if (!options_.files->Exists(path)) return view;
  WEIR_ASSIGN_OR_RETURN(const std::string text, options_.files->ReadFile(path, kMostBytes));
  if (google::protobuf::TextFormat::ParseFromString(text, &view) && view.run_id() != 0) return view;
  return absl::DataLossError(absl::StrCat(
      path, ": is damaged; remove it, and go on from the newest checkpoint with resume: auto"));
}

absl::Status LocalCheckpoints::Record(const v1::JobView& view) {
  v1::JobView kept;
  kept.set_run_id(view.run_id());
  kept.set_name(view.name());
  kept.set_attempt(view.attempt());
  kept.set_state(view.state());
  kept.set_message(view.message());
  kept.mutable_resume()->set_checkpoint_id(view.resume().checkpoint_id());
  std::string text;
  google::protobuf::TextFormat::PrintToString(kept, &text);
  const std::string path = RecordPath();
  const std::string aside = path + ".tmp";  // swept, where this does not come to its end
  WEIR_RETURN_IF_ERROR(options_.files->CreateFolder(FolderOf(path)));
  WEIR_RETURN_IF_ERROR(options_.files->WriteFile(aside, text));
  WEIR_RETURN_IF_ERROR(options_.files->SyncFile(aside));
  WEIR_RETURN_IF_ERROR(options_.files->Rename(aside, path));
  return options_.files->SyncFolder(FolderOf(path));
}

LocalRanges::Place LocalCheckpoints::DataOf(const v1::Manifest& manifest, uint64_t epoch_examples) {
  LocalRanges::Place place;
  place.position = HasDataRanges(manifest)
                       ? manifest.next_epoch() * epoch_examples + manifest.next_position()
                       : DataDone(manifest);
  for (const v1::DataRange& range : manifest.unfinished()) {
    place.unfinished.push_back({range.epoch(), range.first(), range.end()});
  }
  return place;
}

absl::Status LocalCheckpoints::Restore(ParameterServer& server, const v1::JobView& view,
                                       const v1::Manifest& manifest) {
  v1::RestoreRequest request;
  *request.mutable_view() = view;
  request.set_checkpoint_id(manifest.id());
  *request.mutable_parts() = manifest.parts();
  *request.mutable_layout() = manifest.shard_map();
  return Await<v1::RestoreReply>([&](PartRestorer::Done done) {
           parts_->restorer().Restore(server, request, NoDeadline(), std::move(done));
         })
      .status();
}

}  // namespace weir
