// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <iostream>
#include <map>
#include <string>

#include "tests/faults/counting_worker.h"

int main(int argc, char** argv) {
  using Gradient = weir::CountingWorker::Gradient;
  weir::CountingWorker::Options options;
  int step_ms = 0;
  bool async = false;
  uint64_t bound = 0;
  uint64_t group_size = 0;
  uint32_t backup_workers = 0;
  CLI::App app("A worker without a model, for tests of faults.");
  app.add_option("--coordinator", options.coordinator)->required();
  app.add_option("--job", options.job);
  app.add_option("--workers", options.workers);
  app.add_option("--min-workers", options.min_workers);
  app.add_flag("--async", async);
  app.add_option("--bounded-staleness", bound);
  app.add_option("--sync-group-size", group_size);
  app.add_option("--backup-workers", backup_workers);
  app.add_option("--elements", options.elements);
  app.add_option("--steps", options.steps);
  app.add_option("--step-ms", step_ms);
  app.add_option("--gradient", options.gradient)
      ->transform(
          CLI::CheckedTransformer(std::map<std::string, Gradient>{{"constant", Gradient::kConstant},
                                                                  {"weights", Gradient::kWeights},
                                                                  {"data", Gradient::kData}}));
  app.add_option("--amount", options.amount);
  app.add_option("--examples", options.examples);
  app.add_option("--hold-at", options.hold_at);
  app.add_option("--hold-in", options.hold_in);
  app.add_option("--hold-after-bytes", options.hold_after_bytes);
  app.add_option("--leave-at", options.leave_at);
  CLI11_PARSE(app, argc, argv);
  options.regime.set_kind(async            ? weir::v1::REGIME_ASYNC
                          : bound > 0      ? weir::v1::REGIME_BOUNDED_STALENESS
                          : group_size > 0 ? weir::v1::REGIME_SYNC_GROUPS
                                           : weir::v1::REGIME_SYNC);
  options.regime.set_bounded_staleness(bound);
  options.regime.set_sync_group_size(group_size);
  options.regime.set_backup_workers(backup_workers);
  options.step_time = absl::Milliseconds(step_ms);
  const absl::Status status = weir::CountingWorker(options).Run();
  if (!status.ok()) std::cout << "failed: " << status.ToString() << std::endl;
  return status.ok() ? 0 : 1;
}
