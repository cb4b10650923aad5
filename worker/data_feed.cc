// SPDX-License-Identifier: Apache-2.0
#include "worker/data_feed.h"

#include <algorithm>
#include <deque>

#include "absl/time/clock.h"
#include "common/status_macros.h"
#include "rpc/job_length.h"

namespace weir {
namespace {

// Slices of permutation(seed, epoch) that every member computes for itself.
class SyncFeed final : public DataFeed {
 public:
  SyncFeed(const v1::JobSpec& spec, JobSession& session)
      : spec_(spec),
        data_{spec.train_examples(), GlobalBatch(spec)},
        total_steps_(TotalSteps(spec)),
        session_(session) {}

  absl::StatusOr<FeedItem> Next(uint64_t step) override {
    FeedItem item;
    item.end = step >= total_steps_;
    if (item.end) return item;
    const JobInfo info = session_.Info();
    item.slice = SyncSlice(data_, step, info.members, info.rank);
    item.position = static_cast<double>(ExamplesAfterSteps(step + 1, spec_));
    return item;
  }

 private:
  const v1::JobSpec& spec_;
  const SyncData data_;
  const uint64_t total_steps_;
  JobSession& session_;
};

// Ranges that the coordinator hands out. They are large while much is left, so that training
// outlives the coordinator's absence, and small towards the end, so that the workers end together.
class AsyncFeed final : public DataFeed {
 public:
  AsyncFeed(const v1::JobSpec& spec, JobSession& session, double position)
      : batch_(AsyncBatch(spec)),
        total_(TotalExamples(spec)),
        workers_(std::max<uint64_t>(1, spec.workers())),
        session_(session),
        position_(position) {}

  absl::StatusOr<FeedItem> Next(uint64_t) override {
    FeedItem item;
    while (ranges_.empty()) {
      WEIR_ASSIGN_OR_RETURN(const TakenRanges taken, session_.TakeRanges(Wanted()));
      ranges_.assign(taken.ranges.begin(), taken.ranges.end());
      item.end = ranges_.empty() && taken.end_of_data;
      if (item.end) return item;
      if (session_.Info().stop) return absl::CancelledError("the job shall stop");
      // Others hold the last ranges, which come back if they die.
      if (ranges_.empty()) absl::SleepFor(kAskAgain);
    }
    DataRange& range = ranges_.front();
    item.slice = {range.epoch, range.first, std::min(range.end, range.first + batch_)};
    range.first = item.slice.end;
    // Ranges are handed out in large runs, so a range's own place says little: the others are taken
    // to be as fast as this worker.
    const size_t members = std::max<size_t>(1, session_.Info().members.size());
    position_ = std::min(static_cast<double>(total_),
                         position_ + static_cast<double>(item.slice.examples() * members));
    if (range.first >= range.end) ranges_.pop_front();
    item.position = position_;
    return item;
  }

 private:
  static constexpr absl::Duration kAskAgain = absl::Milliseconds(100);
  static constexpr double kMostSeconds = 120;

  uint64_t Wanted() {
    const absl::Time now = absl::Now();
    if (last_wanted_ > 0) {
      const double seconds = std::max(1e-3, absl::ToDoubleSeconds(now - asked_at_));
      rate_ = static_cast<double>(last_wanted_) / seconds;
    }
    const double left = std::max(0.0, static_cast<double>(total_) - position_);
    const double fair = left / static_cast<double>(2 * workers_);
    const double most = rate_ > 0 ? rate_ * kMostSeconds : static_cast<double>(16 * batch_);
    asked_at_ = now;
    // Whole batches, so that none is cut in two by the end of a range.
    const auto batches = static_cast<uint64_t>(std::min(fair, most)) / batch_;
    last_wanted_ = std::max<uint64_t>(1, batches) * batch_;
    return last_wanted_;
  }

  const uint64_t batch_;
  const uint64_t total_;
  const uint64_t workers_;
  JobSession& session_;
  std::deque<DataRange> ranges_;
  double position_;
  absl::Time asked_at_;
  uint64_t last_wanted_ = 0;
  double rate_ = 0;  // examples a second of this worker
};

}  // namespace

std::unique_ptr<DataFeed> DataFeed::Create(const v1::JobSpec& spec, JobSession& session,
                                           double position) {
  if (spec.regime().kind() == v1::REGIME_SYNC) return std::make_unique<SyncFeed>(spec, session);
  return std::make_unique<AsyncFeed>(spec, session, position);
}

}  // namespace weir
