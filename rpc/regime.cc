// SPDX-License-Identifier: Apache-2.0
#include "rpc/regime.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace weir {
namespace {

constexpr uint64_t kMostSteps = 1'000'000'000;

absl::Status Wrong(absl::string_view key, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(key, ": ", why));
}

absl::Status CheckKind(const v1::RegimeSpec& regime) {
  switch (regime.kind()) {
    case v1::REGIME_SYNC:
    case v1::REGIME_ASYNC:
      break;
    case v1::REGIME_BOUNDED_STALENESS:
      if (regime.bounded_staleness() > 0 && regime.bounded_staleness() <= kMostSteps) break;
      return Wrong("regime", absl::StrCat("bounded_staleness is ", regime.bounded_staleness(),
                                          "; expected 1 to ", kMostSteps, " steps, or sync for 0"));
    case v1::REGIME_SYNC_GROUPS:
      break;
    default:
      return Wrong("regime",
                   "expected sync, async, {bounded_staleness: s} or {sync_group_size: k}");
  }
  if (regime.bounded_staleness() != 0 && regime.kind() != v1::REGIME_BOUNDED_STALENESS) {
    return Wrong("regime", "bounded_staleness is a regime of its own");
  }
  if (regime.sync_group_size() != 0 && regime.kind() != v1::REGIME_SYNC_GROUPS) {
    return Wrong("regime", "sync_group_size is a regime of its own");
  }
  return absl::OkStatus();
}

absl::Status CheckGroups(const v1::JobSpec& spec) {
  if (spec.regime().kind() != v1::REGIME_SYNC_GROUPS) return absl::OkStatus();
  const uint64_t size = spec.regime().sync_group_size();
  const uint64_t per_worker = std::max<uint64_t>(1, spec.replicas_per_worker());
  const uint64_t all = Replicas(spec);
  if (size == 0) return Wrong("regime", "sync_group_size is 0; expected replicas, 1 or more");
  if (size % per_worker != 0) {
    return Wrong("regime", absl::StrCat("sync_group_size is ", size,
                                        "; replicas of one process share a group, so expected a "
                                        "multiple of replicas_per_worker, ",
                                        per_worker));
  }
  if (size >= all) {
    return Wrong("regime",
                 absl::StrCat("sync_group_size is ", size, ", but the job has ", all,
                              size == all ? " replicas: one group of all is sync" : " replicas"));
  }
  if (all % size != 0) {
    return Wrong("regime", absl::StrCat("sync_group_size is ", size, ", which does not divide the ",
                                        all, " replicas of the job"));
  }
  return absl::OkStatus();
}

absl::Status CheckBackup(const v1::JobSpec& spec) {
  const uint32_t backup = spec.regime().backup_workers();
  if (backup == 0) return absl::OkStatus();
  if (!IsSync(spec)) {
    return Wrong("backup_workers", "needs regime: sync; elsewhere no update waits for all workers");
  }
  if (backup >= spec.workers()) {
    return Wrong("backup_workers", absl::StrCat(backup, " of ", spec.workers(),
                                                " workers would leave nobody to wait for"));
  }
  if (spec.deterministic()) {
    return Wrong("backup_workers",
                 "which pushes come late differs from run to run, so not with deterministic: true");
  }
  return absl::OkStatus();
}

absl::Status CheckRateScale(const v1::RegimeSpec& regime) {
  if (regime.learning_rate_scale() == v1::RATE_SCALE_UNSPECIFIED) return absl::OkStatus();
  if (!v1::RateScale_IsValid(regime.learning_rate_scale())) {
    return Wrong("learning_rate_scale", "expected 1/workers or 1/staleness");
  }
  if (regime.kind() == v1::REGIME_ASYNC) return absl::OkStatus();
  return Wrong("learning_rate_scale",
               "needs regime: async; elsewhere an update is not the push of one stale worker");
}

}  // namespace

bool IsSync(const v1::JobSpec& spec) {
  return spec.regime().kind() == v1::REGIME_SYNC;
}

uint64_t SyncGroups(const v1::JobSpec& spec) {
  if (spec.regime().kind() != v1::REGIME_SYNC_GROUPS) return 0;
  const uint64_t size = std::max<uint64_t>(1, spec.regime().sync_group_size());
  return std::max<uint64_t>(1, Replicas(spec) / size);
}

uint64_t Replicas(const v1::JobSpec& spec) {
  return std::max<uint64_t>(1, spec.workers()) * std::max<uint64_t>(1, spec.replicas_per_worker());
}

std::string RegimeText(const v1::JobSpec& spec) {
  const v1::RegimeSpec& regime = spec.regime();
  switch (regime.kind()) {
    case v1::REGIME_SYNC:
      if (regime.backup_workers() == 0) return "sync";
      return absl::StrCat("sync, ", regime.backup_workers(), " backup worker",
                          regime.backup_workers() == 1 ? "" : "s");
    case v1::REGIME_ASYNC:
      switch (regime.learning_rate_scale()) {
        case v1::RATE_SCALE_WORKERS:
          return "async, rate 1/workers";
        case v1::RATE_SCALE_STALENESS:
          return "async, rate 1/staleness";
        default:
          return "async";
      }
    case v1::REGIME_BOUNDED_STALENESS:
      return absl::StrCat("bounded_staleness ", regime.bounded_staleness());
    case v1::REGIME_SYNC_GROUPS:
      return absl::StrCat("sync_group_size ", regime.sync_group_size());
    default:
      return "unknown";
  }
}

absl::Status CheckRegime(const v1::JobSpec& spec) {
  WEIR_RETURN_IF_ERROR(CheckKind(spec.regime()));
  WEIR_RETURN_IF_ERROR(CheckGroups(spec));
  WEIR_RETURN_IF_ERROR(CheckBackup(spec));
  WEIR_RETURN_IF_ERROR(CheckRateScale(spec.regime()));
  if (spec.deterministic() && !IsSync(spec)) {
    return Wrong("deterministic",
                 "needs regime: sync; the order of asynchronous pushes is not fixed");
  }
  return absl::OkStatus();
}

}  // namespace weir
