// SPDX-License-Identifier: Apache-2.0
#include "rpc/regime.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace weir {
namespace {

absl::Status Wrong(absl::string_view key, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(key, ": ", why));
}

absl::Status CheckKind(const v1::RegimeSpec& regime) {
  switch (regime.kind()) {
    case v1::REGIME_SYNC:
    case v1::REGIME_ASYNC:
      break;
    case v1::REGIME_BOUNDED_STALENESS:
    case v1::REGIME_SYNC_GROUPS:
      return absl::UnimplementedError(
          "regime: bounded_staleness and sync_group_size come with a later version");
    default:
      return Wrong("regime", "expected sync or async");
  }
  if (regime.bounded_staleness() != 0 || regime.sync_group_size() != 0) {
    return Wrong("regime", "bounded_staleness and sync_group_size are regimes of their own");
  }
  if (regime.backup_workers() != 0) {
    return absl::UnimplementedError("backup_workers: they come with a later version");
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

uint64_t Replicas(const v1::JobSpec& spec) {
  return std::max<uint64_t>(1, spec.workers()) * std::max<uint64_t>(1, spec.replicas_per_worker());
}

std::string RegimeText(const v1::JobSpec& spec) {
  const v1::RegimeSpec& regime = spec.regime();
  switch (regime.kind()) {
    case v1::REGIME_SYNC:
      return "sync";
    case v1::REGIME_ASYNC:
      switch (regime.learning_rate_scale()) {
        case v1::RATE_SCALE_WORKERS:
          return "async, rate 1/workers";
        case v1::RATE_SCALE_STALENESS:
          return "async, rate 1/staleness";
        default:
          return "async";
      }
    default:
      return "unknown";
  }
}

absl::Status CheckRegime(const v1::JobSpec& spec) {
  WEIR_RETURN_IF_ERROR(CheckKind(spec.regime()));
  WEIR_RETURN_IF_ERROR(CheckRateScale(spec.regime()));
  if (spec.deterministic() && !IsSync(spec)) {
    return Wrong("deterministic",
                 "needs regime: sync; the order of asynchronous pushes is not fixed");
  }
  return absl::OkStatus();
}

}  // namespace weir
