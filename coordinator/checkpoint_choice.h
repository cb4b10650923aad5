// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/checkpoint_catalog.h"
#include "weir/v1/view.pb.h"

namespace weir {

// Which checkpoint an attempt of one job begins from: what its spec says of `resume`, what there
// is, and what has turned out damaged. Thread-compatible.
class CheckpointChoice {
 public:
  // `catalog` must outlive this.
  explicit CheckpointChoice(const CheckpointCatalog& catalog) : catalog_(catalog) {}

  // Of the attempt that comes next. Null: none, so first values are assigned. `cuts`: that the run
  // has begun; without one it has no checkpoint of its own.
  // Errors: those of OfFirstAttempt; DataLoss - the run's own ones are all damaged: names the
  // newest; FailedPrecondition - the newest is of a newer format.
  absl::StatusOr<SharedManifest> Choose(const v1::JobView& view, uint64_t cuts) const;
  // The same of a run that has not begun, as its spec says.
  // Errors: NotFound - there is none, or none of this id; DataLoss - all are damaged, or the one
  // that is asked for; those of CheckpointCatalog::Find.
  absl::StatusOr<SharedManifest> OfFirstAttempt(const v1::JobSpec& spec) const;

  // It could not be restored: it is passed over from now on.
  void NoteDamage(const std::string& id, const std::string& why) { damaged_[id] = why; }
  // "; 00000012-2 is damaged: ..." of each that would have been taken before `taken`.
  std::string PassedOver(const v1::JobView& view, const SharedManifest& taken) const;

 private:
  // OK: it is intact, as far as is known. DataLoss, or why its manifest cannot be read.
  absl::Status Damage(const absl::StatusOr<SharedManifest>& manifest) const;

  const CheckpointCatalog& catalog_;
  std::map<std::string, std::string> damaged_;  // why, by id
};

}  // namespace weir
