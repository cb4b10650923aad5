// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "weir/job_session.h"
#include "weir/v1/job_spec.pb.h"
#include "worker/data/batch_slices.h"

namespace weir {

struct FeedItem {
  bool end = false;     // no more data: the job is done
  BatchSlice slice;     // perhaps empty, where others wait for the step: it counts without examples
  double position = 0;  // examples of the whole job that are behind when this step is done, about
  // Examples that this worker, or its sync group, has taken in this attempt when the step is done.
  uint64_t consumed = 0;
};

// Which examples this worker's next step takes, by the job's regime. Used from one thread.
class DataFeed {
 public:
  virtual ~DataFeed() = default;

  // Steps rise by one from the first asked for. Errors: those of JobSession::TakeRanges, where
  // there is nothing else to train on, or no data for 10 minutes; Cancelled - while this waited for
  // data it was interrupted, or `session` says that the job shall stop.
  virtual absl::StatusOr<FeedItem> Next(uint64_t step) = 0;

  // What the steps from `step` on will probably take, as far as it is known now, at most so many.
  virtual std::vector<BatchSlice> Upcoming(uint64_t step, uint32_t count) const = 0;

  // For one attempt, which the job is in at `position` when this worker begins. Borrows all but the
  // position. `spec` is resolved. `interrupted`: no wait for data goes on.
  static std::unique_ptr<DataFeed> Create(const v1::JobSpec& spec, JobSession& session,
                                          const Clock& clock, const std::atomic<bool>& interrupted,
                                          double position);
};

}  // namespace weir
