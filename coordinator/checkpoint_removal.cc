// SPDX-License-Identifier: Apache-2.0
#include "coordinator/checkpoint_removal.h"

#include <functional>

namespace weir {
namespace {

// Asks the servers to drop a checkpoint's parts. For an effect of a turn.
std::function<void(const v1::Manifest&)> PartsDropper(const JobContext& context) {
  return [dropper = context.dropper, servers = context.servers.Live(),
          term = context.term](const v1::Manifest& remains) {
    dropper->Add(remains);
    dropper->Ask(servers, term);
  };
}

}  // namespace

void DropOldCheckpoints(const JobContext& context, const std::string& job, size_t keep,
                        Turn& turn) {
  for (const auto& manifest : context.checkpoints->List(job)) {
    if (!manifest.ok()) continue;
    if (keep > 0) {
      --keep;
      continue;
    }
    turn.Later([catalog = context.checkpoints, drop = PartsDropper(context), old = *manifest] {
      catalog->Delete(old->job(), old->id(), [drop](const absl::StatusOr<v1::Manifest>& deleted) {
        if (deleted.ok()) drop(*deleted);
      });
    });
  }
}

void DropUnfinished(const JobContext& context, const v1::Manifest& manifest, Turn& turn) {
  v1::Manifest remains;
  remains.set_job(manifest.job());
  remains.set_id(manifest.id());
  for (const v1::CheckpointPart& part : manifest.parts()) {
    remains.add_parts()->set_server(part.server());
  }
  turn.Later([catalog = context.checkpoints, drop = PartsDropper(context), remains] {
    catalog->Abandon(remains.job(), remains.id(), [drop, remains](const absl::Status& abandoned) {
      if (abandoned.ok()) drop(remains);
    });
  });
}

}  // namespace weir
