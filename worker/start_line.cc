// SPDX-License-Identifier: Apache-2.0
#include "worker/start_line.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "rpc/job_length.h"
#include "rpc/regime.h"
#include "worker/scalar_text.h"

namespace weir {
namespace {

std::string Counted(uint64_t count, absl::string_view what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

std::string Shape(const v1::Schedule& schedule) {
  std::string shape;
  if (schedule.has_step()) shape = ", in steps";
  if (schedule.has_cosine()) {
    shape = absl::StrCat(", cosine to ", FormatNumber(schedule.cosine().final_rate()));
  }
  if (schedule.has_linear()) {
    shape = absl::StrCat(", linear to ", FormatNumber(schedule.linear().final_rate()));
  }
  if (schedule.warm_up_examples() > 0) {
    absl::StrAppend(&shape, ", after a warm-up of ", schedule.warm_up_examples(), " examples");
  }
  return shape;
}

std::string Rate(const v1::JobSpec& spec, const v1::Schedule& schedule) {
  const std::string base = FormatNumber(schedule.base());
  if (spec.regime().learning_rate_scale() == v1::RATE_SCALE_WORKERS) {
    return absl::StrCat(FormatNumber(schedule.base() / spec.workers()), " (", base, " / ",
                        Counted(spec.workers(), "worker"), ")", Shape(schedule));
  }
  if (spec.regime().learning_rate_scale() == v1::RATE_SCALE_STALENESS) {
    return absl::StrCat(base, " / staleness", Shape(schedule));
  }
  return base + Shape(schedule);
}

std::string Update(const v1::JobSpec& spec) {
  const std::string examples = Counted(UpdateBatch(spec), "example");
  if (SyncGroups(spec) > 0) return examples + ", of one group";
  if (!IsSync(spec)) return examples + ", of one worker";
  const uint32_t backup = spec.regime().backup_workers();
  return absl::StrCat(examples, ", ", FormatNumber(PerWorkerBatch(spec)), " of each worker",
                      backup == 0 ? "" : absl::StrCat(" but the last ", backup));
}

}  // namespace

std::string StartLine(const v1::JobSpec& spec) {
  std::string replicas;
  if (spec.replicas_per_worker() > 1) {
    replicas = absl::StrCat(" of ", spec.replicas_per_worker(), " replicas");
  }
  std::string rates;
  const std::map<std::string, v1::Optimizer> sorted(spec.optimizers().begin(),
                                                    spec.optimizers().end());
  for (const auto& [name, optimizer] : sorted) {
    absl::StrAppend(&rates, "; ", name, ": learning rate ", Rate(spec, optimizer.learning_rate()));
  }
  return absl::StrCat(RegimeText(spec), ": ", Counted(spec.workers(), "worker"), replicas,
                      "; an update takes ", Update(spec), rates);
}

}  // namespace weir
