// SPDX-License-Identifier: Apache-2.0
#include "worker/job_regime.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rpc/regime.h"

namespace weir {
namespace {

// No staleness at all, and a group of all replicas, are sync itself.
void ReadRegimeOptions(const YamlValue& value, v1::JobSpec& spec) {
  YamlMap map = *value.Map();
  v1::RegimeSpec& regime = *spec.mutable_regime();
  const auto group = map.Get("sync_group_size");
  if (group) {
    regime.set_kind(v1::REGIME_SYNC_GROUPS);
    regime.set_sync_group_size(group->Count(1).value_or(1));
    if (regime.sync_group_size() == Replicas(spec)) {
      regime.set_kind(v1::REGIME_SYNC);
      regime.clear_sync_group_size();
    }
  }
  if (const auto bound = map.Get("bounded_staleness")) {
    regime.set_bounded_staleness(bound->Count().value_or(1));
    regime.set_kind(regime.bounded_staleness() == 0 ? v1::REGIME_SYNC
                                                    : v1::REGIME_BOUNDED_STALENESS);
    if (group) {
      regime.clear_sync_group_size();
      value.Report("expected one of {bounded_staleness: ...} and {sync_group_size: ...}");
    }
  }
  map.Finish();
}

void ReadKind(YamlMap& job, v1::JobSpec& spec) {
  spec.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  const auto value = job.Get("regime");
  if (!value) return;
  if (value->is_map()) {
    ReadRegimeOptions(*value, spec);
    return;
  }
  const auto word = value->OneOf({"sync", "async"});
  if (word == "sync") spec.mutable_regime()->set_kind(v1::REGIME_SYNC);
}

void ReadRateScale(YamlMap& job, v1::JobSpec& spec) {
  const auto value = job.Get("learning_rate_scale");
  const auto word = value ? value->OneOf({"1/workers", "1/staleness"}) : std::nullopt;
  if (!word) return;
  spec.mutable_regime()->set_learning_rate_scale(word == "1/workers" ? v1::RATE_SCALE_WORKERS
                                                                     : v1::RATE_SCALE_STALENESS);
}

void ReadBackup(YamlMap& job, v1::JobSpec& spec) {
  const auto value = job.Get("backup_workers");
  const auto count = value ? value->Count() : std::nullopt;
  if (count) spec.mutable_regime()->set_backup_workers(std::min<uint64_t>(*count, UINT32_MAX));
}

}  // namespace

void ReadRegime(YamlMap& job, v1::JobSpec& spec) {
  ReadKind(job, spec);
  ReadBackup(job, spec);
  ReadRateScale(job, spec);
}

// What contradicts is reported at the key that the message begins with.
void CheckRegimeKeys(YamlMap& job, const v1::JobSpec& spec) {
  const absl::Status status = CheckRegime(spec);
  if (status.ok()) return;
  const std::vector<std::string> parts = absl::StrSplit(status.message(), absl::MaxSplits(": ", 1));
  const auto value = job.Get(parts[0]);
  value ? value->Report(parts.back()) : job.Report(status.message());
}

std::string PrintRegime(const v1::RegimeSpec& regime) {
  std::string text = regime.kind() == v1::REGIME_SYNC ? "regime: sync\n" : "regime: async\n";
  if (regime.kind() == v1::REGIME_BOUNDED_STALENESS) {
    text = absl::StrCat("regime: {bounded_staleness: ", regime.bounded_staleness(), "}\n");
  } else if (regime.kind() == v1::REGIME_SYNC_GROUPS) {
    text = absl::StrCat("regime: {sync_group_size: ", regime.sync_group_size(), "}\n");
  }
  if (regime.backup_workers() > 0) {
    absl::StrAppend(&text, "backup_workers: ", regime.backup_workers(), "\n");
  }
  if (regime.learning_rate_scale() == v1::RATE_SCALE_WORKERS) {
    absl::StrAppend(&text, "learning_rate_scale: 1/workers\n");
  } else if (regime.learning_rate_scale() == v1::RATE_SCALE_STALENESS) {
    absl::StrAppend(&text, "learning_rate_scale: 1/staleness\n");
  }
  return text;
}

}  // namespace weir
