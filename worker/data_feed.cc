// SPDX-License-Identifier: Apache-2.0
#include "worker/data_feed.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/status_macros.h"
#include "rpc/job_length.h"
#include "rpc/regime.h"

namespace weir {
namespace {

// Slices of permutation(seed, epoch) that every member computes for itself.
class SyncFeed final : public DataFeed {
 public:
  SyncFeed(const v1::JobSpec& spec, JobSession& session)
      : spec_(spec),
        data_{spec.train_examples(), GlobalBatch(spec),
              std::max<uint32_t>(1, spec.replicas_per_worker())},
        total_steps_(TotalSteps(spec)),
        session_(session) {}

  absl::StatusOr<FeedItem> Next(uint64_t step) override {
    FeedItem item;
    item.end = step >= total_steps_;
    if (item.end) return item;
    const JobInfo info = session_.Info();
    item.slice = SyncSlice(data_, step, info.members, info.rank);
    item.position = static_cast<double>(ExamplesAfterSteps(step + 1, spec_));
    item.consumed = consumed_ += item.slice.examples();
    return item;
  }

  std::vector<BatchSlice> Upcoming(uint64_t step, uint32_t count) const override {
    std::vector<BatchSlice> slices;
    const JobInfo info = session_.Info();
    for (; slices.size() < count && step < total_steps_; ++step) {
      slices.push_back(SyncSlice(data_, step, info.members, info.rank));
    }
    return slices;
  }

 private:
  const v1::JobSpec& spec_;
  const SyncData data_;
  const uint64_t total_steps_;
  JobSession& session_;
  uint64_t consumed_ = 0;
};

// How fast this worker trains: what is longer ago counts less.
class Speed {
 public:
  void Add(uint64_t examples, absl::Duration took) {
    const double seconds = absl::ToDoubleSeconds(took);
    const double kept = std::exp(-seconds / kSeconds);
    examples_ = examples_ * kept + static_cast<double>(examples);
    seconds_ = seconds_ * kept + seconds;
  }

  // Examples a second; 0: nothing is known.
  double rate() const { return examples_ / std::max(seconds_, 1e-3); }

 private:
  static constexpr double kSeconds = 10;

  double examples_ = 0;
  double seconds_ = 0;
};

// This worker's part of its sync group's batch.
BatchSlice PartOfGroup(const BatchSlice& batch, uint64_t step, const JobInfo& info,
                       uint32_t replicas) {
  uint32_t group = 0;
  for (const JobInfo::Member& member : info.members) {
    if (member.rank == info.rank) group = member.sync_group;
  }
  std::vector<JobInfo::Member> members;
  for (const JobInfo::Member& member : info.members) {
    if (member.sync_group == group) members.push_back(member);
  }
  return MemberSlice(batch, step, members, info.rank, replicas);
}

// Ranges that the coordinator hands out: docs/coordinator.md, "Data of `async`". The members of a
// sync group take the same ones, and divide each batch.
class AsyncFeed final : public DataFeed {
 public:
  AsyncFeed(const v1::JobSpec& spec, JobSession& session, const Clock& clock,
            const std::atomic<bool>& interrupted, double position)
      : in_group_(SyncGroups(spec) > 0),
        may_wait_(spec.regime().kind() != v1::REGIME_BOUNDED_STALENESS),
        batch_(StepBatch(spec)),
        replicas_(std::max<uint32_t>(1, spec.replicas_per_worker())),
        total_(TotalExamples(spec)),
        holders_(std::max<uint64_t>(1, in_group_ ? SyncGroups(spec) : spec.workers())),
        session_(session),
        clock_(clock),
        interrupted_(interrupted),
        position_(position) {}

  absl::StatusOr<FeedItem> Next(uint64_t step) override {
    // The caller has trained on the item before.
    if (given_ > 0) speed_.Add(given_, clock_.Now() - given_at_);
    const JobInfo info = session_.Info();
    FeedItem item;
    // One that joins a sync group takes its ranges up where the others are.
    while (in_group_ && batches_ < step - info.resume_step && !item.end) {
      WEIR_RETURN_IF_ERROR(TakeBatch(item));
    }
    if (!item.end) WEIR_RETURN_IF_ERROR(TakeBatch(item));
    if (item.end) return item;
    // Ranges are handed out in large runs, so a range's own place says little: the others are taken
    // to be as fast as this worker.
    position_ = std::min(static_cast<double>(total_),
                         position_ + static_cast<double>(given_ * HoldersOf(info)));
    item.position = position_;
    item.consumed = consumed_;
    if (in_group_) item.slice = PartOfGroup(item.slice, step, info, replicas_);
    given_at_ = clock_.Now();
    return item;
  }

  std::vector<BatchSlice> Upcoming(uint64_t step, uint32_t count) const override {
    std::vector<BatchSlice> slices;
    const JobInfo info = session_.Info();
    for (DataRange range : ranges_) {
      while (slices.size() < count && range.first < range.end) {
        BatchSlice slice = NextOf(range);
        if (in_group_) slice = PartOfGroup(slice, step + slices.size(), info, replicas_);
        slices.push_back(slice);
      }
    }
    return slices;
  }

 private:
  // Of the first request, when nothing is known of the speed: a slow worker shall not sit on much.
  static constexpr uint64_t kFirstBatches = 16;
  // How long a question may hold up training that could go on without its answer, and the pause
  // after one that brought too little.
  static constexpr absl::Duration kAheadTimeout = absl::Milliseconds(200);
  static constexpr absl::Duration kAskAgain = absl::Seconds(5);
  // Without data: how often a stop by command or a signal is looked for; how long a coordinator may
  // take that has not answered within that, for its disk may be slow; and when to give up.
  static constexpr absl::Duration kLookAgain = absl::Milliseconds(200);
  static constexpr absl::Duration kSlowAnswer = absl::Seconds(5);
  static constexpr absl::Duration kGiveUp = absl::Minutes(10);

  // The next batch; none, where there is no data now and others may wait for this worker.
  absl::Status TakeBatch(FeedItem& item) {
    given_ = 0;
    item.slice = {};
    if (held_ == 0) {
      WEIR_ASSIGN_OR_RETURN(item.end, WaitForRanges());
      if (held_ == 0) return absl::OkStatus();
    } else {
      WEIR_RETURN_IF_ERROR(AskAhead());
    }
    item.slice = NextOf(ranges_.front());
    if (ranges_.front().first >= ranges_.front().end) ranges_.pop_front();
    given_ = item.slice.examples();
    held_ -= given_;
    consumed_ += given_;
    ++batches_;
    return absl::OkStatus();
  }

  // A batch from the front of a range.
  BatchSlice NextOf(DataRange& range) const {
    const BatchSlice slice{range.epoch, range.first, std::min(range.end, range.first + batch_)};
    range.first = slice.end;
    return slice;
  }

  uint64_t HoldersOf(const JobInfo& info) const {
    if (!in_group_) return std::max<uint64_t>(1, info.members.size());
    std::set<uint32_t> groups;
    for (const JobInfo::Member& member : info.members) groups.insert(member.sync_group);
    return std::max<uint64_t>(1, groups.size());
  }

  // What this worker should hold now.
  double Ahead() const {
    const double left = std::max(0.0, static_cast<double>(total_) - position_);
    const double fair = left / static_cast<double>(2 * holders_);
    const double most = speed_.rate() > 0 ? speed_.rate() * kSecondsAhead
                                          : static_cast<double>(kFirstBatches * batch_);
    return std::min(fair, most);
  }

  absl::Status Take(absl::Duration timeout, bool& end) {
    const double lacking = std::max(0.0, Ahead() - static_cast<double>(held_));
    // Whole batches, so that none is cut in two by the end of a range.
    const uint64_t batches = std::max<uint64_t>(1, static_cast<uint64_t>(lacking) / batch_);
    WEIR_ASSIGN_OR_RETURN(const TakenRanges taken, session_.TakeRanges(batches * batch_, timeout));
    for (const DataRange& range : taken.ranges) {
      held_ += range.end - range.first;
      ranges_.push_back(range);
    }
    end = held_ == 0 && taken.end_of_data;
    return absl::OkStatus();
  }

  static bool NobodyThere(const absl::Status& status) {
    return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  }

  bool HoldsEnough() const { return static_cast<double>(held_) >= Ahead() / 2; }

  absl::Status AskAhead() {
    if (HoldsEnough() || clock_.Now() < ask_after_) return absl::OkStatus();
    bool end = false;
    const absl::Status status = Take(kAheadTimeout, end);
    if (!HoldsEnough()) ask_after_ = clock_.Now() + kAskAgain;
    return NobodyThere(status) ? absl::OkStatus() : status;
  }

  // True: there are no more. False and nothing held: not now.
  absl::StatusOr<bool> WaitForRanges() {
    if (!may_wait_) return LookForRanges();
    const absl::Time give_up = clock_.Now() + kGiveUp;
    absl::Duration patience = kLookAgain;
    bool end = false;
    while (held_ == 0 && !end) {
      if (interrupted_) return absl::CancelledError("interrupted");
      WEIR_ASSIGN_OR_RETURN(const bool answered,
                            Look(std::min(patience, give_up - clock_.Now()), give_up, end));
      patience = answered ? kLookAgain : kSlowAnswer;
      if (!end && session_.Info().stop) return absl::CancelledError("the job shall stop");
    }
    return end;
  }

  absl::StatusOr<bool> LookForRanges() {
    if (dry_since_ == absl::InfiniteFuture()) dry_since_ = clock_.Now();
    bool end = false;
    WEIR_RETURN_IF_ERROR(Look(kAheadTimeout, dry_since_ + kGiveUp, end).status());
    if (held_ > 0) dry_since_ = absl::InfiniteFuture();
    return end;
  }

  // False: nobody has answered.
  absl::StatusOr<bool> Look(absl::Duration patience, absl::Time give_up, bool& end) {
    const absl::Status status = Take(patience, end);
    const bool late = clock_.Now() >= give_up && held_ == 0 && !end;
    if (!NobodyThere(status) || late) WEIR_RETURN_IF_ERROR(status);
    if (late) {
      return absl::DeadlineExceededError(
          absl::StrCat("no data for ", absl::FormatDuration(kGiveUp),
                       ": other workers hold the rest of it and have not finished it"));
    }
    return status.ok();
  }

  const bool in_group_;
  const bool may_wait_;  // false: others may wait for this worker's steps
  const uint64_t batch_;
  const uint32_t replicas_;  // of this worker
  const uint64_t total_;
  const uint64_t holders_;  // of ranges: workers, or sync groups
  JobSession& session_;
  const Clock& clock_;
  const std::atomic<bool>& interrupted_;
  std::deque<DataRange> ranges_;
  uint64_t held_ = 0;  // examples in them
  double position_;
  uint64_t given_ = 0;  // examples of the newest item
  absl::Time given_at_;
  Speed speed_;
  absl::Time ask_after_ = absl::InfinitePast();
  absl::Time dry_since_ = absl::InfiniteFuture();
  uint64_t consumed_ = 0;  // examples
  uint64_t batches_ = 0;
};

}  // namespace

std::unique_ptr<DataFeed> DataFeed::Create(const v1::JobSpec& spec, JobSession& session,
                                           const Clock& clock, const std::atomic<bool>& interrupted,
                                           double position) {
  if (IsSync(spec)) return std::make_unique<SyncFeed>(spec, session);
  return std::make_unique<AsyncFeed>(spec, session, clock, interrupted, position);
}

}  // namespace weir
