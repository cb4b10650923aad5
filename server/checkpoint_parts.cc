// SPDX-License-Identifier: Apache-2.0
#include "server/checkpoint_parts.h"

#include "checkpoint/manifest.h"
#include "checkpoint/part_folder.h"
#include "common/status_macros.h"

namespace weir {
namespace {

constexpr int kServingThreads = 2;

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointParts>> CheckpointParts::Open(Options options) {
  WEIR_RETURN_IF_ERROR(CheckFolderName("server", options.server));
  WEIR_RETURN_IF_ERROR(SweepParts(*options.files, options.root));
  return std::unique_ptr<CheckpointParts>(new CheckpointParts(options));
}

CheckpointParts::CheckpointParts(const Options& options)
    : fetcher_(*options.files, {options.root}),
      saving_(Executor::CreatePool(1)),
      restoring_(Executor::CreatePool(1)),
      serving_(Executor::CreatePool(kServingThreads)),
      saver_({.files = options.files,
              .executor = saving_.get(),
              .clock = options.clock,
              .stopping = &stopping_,
              .root = options.root,
              .server = options.server,
              .bytes_per_second = options.bytes_per_second}),
      restorer_({.local = &fetcher_,
                 .peers = options.peers,
                 .executor = restoring_.get(),
                 .clock = options.clock,
                 .stopping = &stopping_,
                 .server = options.server}) {}

CheckpointParts::~CheckpointParts() {
  Stop();
}

}  // namespace weir
