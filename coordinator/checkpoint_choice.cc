// SPDX-License-Identifier: Apache-2.0
#include "coordinator/checkpoint_choice.h"

#include "absl/strings/str_cat.h"

namespace weir {

absl::StatusOr<SharedManifest> CheckpointChoice::OfFirstAttempt(const v1::JobSpec& spec) const {
  const std::string& resume = spec.resume();
  if (resume.empty()) return SharedManifest();
  if (resume != "latest" && resume != "auto") return catalog_.Find(spec.name(), resume);
  const auto manifests = catalog_.List(spec.name());
  if (resume == "latest") {
    if (!manifests.empty()) return manifests.front();
    return absl::NotFoundError(absl::StrCat("resume: job '", spec.name(), "' has no checkpoint"));
  }
  for (const auto& manifest : manifests) {
    if (!absl::IsDataLoss(manifest.status())) {
      if (!manifest.ok() || damaged_.count((*manifest)->id()) == 0) return manifest;
    }
  }
  return SharedManifest();
}

absl::StatusOr<SharedManifest> CheckpointChoice::Choose(const v1::JobView& view) const {
  if (view.shard_map().version() == 0) return OfFirstAttempt(view.spec());
  const bool any_run = view.spec().resume() == "auto";
  for (const auto& manifest : catalog_.List(view.name())) {
    if (!manifest.ok() || damaged_.count((*manifest)->id()) > 0) continue;
    if (any_run || (*manifest)->run_id() == view.run_id() ||
        (*manifest)->id() == view.resume().checkpoint_id()) {
      return *manifest;
    }
  }
  if (!damaged_.empty()) {
    return absl::DataLossError(absl::StrCat("no intact checkpoint of job '", view.name(),
                                            "' is left; the newest, ", damaged_.rbegin()->first,
                                            ", is damaged: ", damaged_.rbegin()->second));
  }
  return SharedManifest();
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
