// SPDX-License-Identifier: Apache-2.0
#include "coordinator/checkpoint_choice.h"

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

// `newest`: the first damage that was met; OK: none was, as there is no checkpoint.
absl::StatusOr<SharedManifest> NoneUnless(const std::string& job, const absl::Status& newest) {
  if (newest.ok()) return SharedManifest();
  return absl::DataLossError(absl::StrCat("no intact checkpoint of job '", job,
                                          "' is left; the newest: ", newest.message()));
}

}  // namespace

absl::Status CheckpointChoice::Damage(const absl::StatusOr<SharedManifest>& manifest) const {
  if (!manifest.ok()) return manifest.status();
  const auto damaged = damaged_.find((*manifest)->id());
  if (damaged == damaged_.end()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(damaged->first, " is damaged: ", damaged->second));
}

absl::StatusOr<SharedManifest> CheckpointChoice::OfFirstAttempt(const v1::JobSpec& spec) const {
  const std::string& resume = spec.resume();
  if (resume.empty()) return SharedManifest();
  if (resume != "latest" && resume != "auto") return catalog_.Find(spec.name(), resume);
  const auto manifests = catalog_.List(spec.name());
  if (resume == "latest") {
    if (!manifests.empty()) return manifests.front();
    return absl::NotFoundError(absl::StrCat("resume: job '", spec.name(), "' has no checkpoint"));
  }
  absl::Status newest;
  for (const auto& manifest : manifests) {
    const absl::Status damage = Damage(manifest);
    if (!absl::IsDataLoss(damage)) return manifest;
    newest.Update(damage);
  }
  return NoneUnless(spec.name(), newest);
}

// A manifest that cannot be read does not say of which run it is. Numbers rise with each checkpoint
// of the name, so behind one of an earlier run there are none of this one.
absl::StatusOr<SharedManifest> CheckpointChoice::Choose(const v1::JobView& view,
                                                        uint64_t cuts) const {
  if (view.shard_map().version() == 0) return OfFirstAttempt(view.spec());
  const bool any_run = view.spec().resume() == "auto";
  bool perhaps_own = any_run || cuts > 0;
  absl::Status newest;
  for (const auto& manifest : catalog_.List(view.name())) {
    if (manifest.ok()) {
      perhaps_own = perhaps_own && (any_run || (*manifest)->run_id() == view.run_id());
      if (!perhaps_own && (*manifest)->id() != view.resume().checkpoint_id()) continue;
    } else if (!perhaps_own) {
      continue;
    }
    const absl::Status damage = Damage(manifest);
    if (!absl::IsDataLoss(damage)) return manifest;
    newest.Update(damage);
  }
  // Nor does one that has gone on from a checkpoint begin anew when that one is lost.
  const std::string& resumed = view.resume().checkpoint_id();
  if (!resumed.empty()) newest.Update(catalog_.Find(view.name(), resumed).status());
  return NoneUnless(view.name(), newest);
}

std::string CheckpointChoice::PassedOver(const v1::JobView& view,
                                         const SharedManifest& taken) const {
  std::string passed_over;
  if (view.attempt() == 1 && view.spec().resume() != "auto") return passed_over;
  for (const auto& manifest : catalog_.List(view.name())) {
    if (!manifest.ok()) {
      absl::StrAppend(&passed_over, "; ", manifest.status().message());
      continue;
    }
    if (taken != nullptr && (*manifest)->id() == taken->id()) break;
    const auto damaged = damaged_.find((*manifest)->id());
    if (damaged == damaged_.end()) continue;
    absl::StrAppend(&passed_over, "; ", damaged->first, " is damaged: ", damaged->second);
  }
  return passed_over;
}

}  // namespace weir
