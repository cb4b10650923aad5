// SPDX-License-Identifier: Apache-2.0
// What holds of an `async` job's data over any life of a job: workers that take, train and die,
// checkpoints, coordinators that are started again, and runs that go on with another length, batch
// or number of workers.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "coordinator/range_dispenser.h"

namespace weir {
namespace {

class Life {
 public:
  Life() { Begin(); }

  void Take(size_t index) {
    Worker& worker = workers_[index % workers_.size()];
    v1::TakeRangesRequest request;
    request.set_request(worker.request + 1);
    request.set_examples(*rc::gen::inRange<uint64_t>(0, 4 * epoch_));
    request.set_consumed(worker.consumed);
    const auto reply = dispenser_->Take(worker.holder, request, workers_.size());
    RC_ASSERT(reply.ok());
    worker.at_end = reply->end_of_data();
    if (reply->ranges().empty()) return;
    ++worker.request;
    worker.ranges.insert(worker.ranges.end(), reply->ranges().begin(), reply->ranges().end());
  }

  // A batch.
  void Train(size_t index) {
    Worker& worker = workers_[index % workers_.size()];
    if (worker.ranges.empty()) return;
    v1::DataRange& range = worker.ranges.front();
    RC_ASSERT(range.first() < range.end());
    for (uint64_t i = 0; i < batch_ && range.first() < range.end(); ++i) {
      const uint64_t position = range.epoch() * epoch_ + range.first();
      RC_ASSERT(position < length_);
      RC_ASSERT(trained_.insert(position).second);
      range.set_first(range.first() + 1);
      ++worker.consumed;
    }
    if (range.first() == range.end()) worker.ranges.pop_front();
  }

  // Another comes for it.
  void Die(size_t index) {
    Worker& worker = workers_[index % workers_.size()];
    dispenser_->Consume(worker.holder, worker.consumed);
    dispenser_->Return(worker.holder);
    worker = {.holder = RangeHolder{++last_holder_}};
  }

  void Save() {
    std::map<RangeHolder, uint64_t> consumed;
    for (const Worker& worker : workers_) consumed[worker.holder] = worker.consumed;
    saved_.Clear();
    dispenser_->Freeze();
    dispenser_->FillManifest(consumed, saved_);
    dispenser_->Thaw();
    saved_trained_ = trained_;
    uint64_t not_done = 0;
    for (const v1::DataRange& range : saved_.unfinished()) not_done += range.end() - range.first();
    RC_ASSERT(saved_.next_epoch() * epoch_ + saved_.next_position() - not_done == trained_.size());
  }

  void RestartTheCoordinator() {
    const v1::RangesRecord record = dispenser_->Save();
    dispenser_.emplace(Options());
    dispenser_->Load(record);
  }

  // From the newest checkpoint; what came after it is undone.
  void Resume() {
    trained_ = saved_trained_;
    Begin();
  }

  // All that is there for them is taken and trained.
  void GoOnToTheEnd() {
    const size_t wanted = std::max<size_t>(length_, done_before_);
    for (int round = 0; round < 10'000 && !AtEnd(); ++round) {
      for (size_t index = 0; index < workers_.size(); ++index) {
        while (!workers_[index].ranges.empty()) Train(index);
        Take(index);
      }
    }
    RC_ASSERT(AtEnd());
    RC_ASSERT(trained_.size() == wanted);
  }

 private:
  struct Worker {
    RangeHolder holder{};
    uint64_t request = 0;
    uint64_t consumed = 0;
    bool at_end = false;
    std::deque<v1::DataRange> ranges = {};
  };

  RangeDispenser::Options Options() const {
    return {.epoch_examples = epoch_, .batch = batch_, .total_examples = length_};
  }

  void Begin() {
    batch_ = *rc::gen::inRange<uint64_t>(1, 15);
    length_ = *rc::gen::inRange<uint64_t>(0, 6 * epoch_);
    done_before_ = trained_.size();
    workers_.clear();
    const auto number = *rc::gen::inRange<size_t>(1, 4);
    for (size_t i = 0; i < number; ++i) workers_.push_back({.holder = RangeHolder{++last_holder_}});
    dispenser_.emplace(Options());
    dispenser_->Start({.epoch = saved_.next_epoch(),
                       .position = saved_.next_position(),
                       .unfinished = {saved_.unfinished().begin(), saved_.unfinished().end()}});
  }

  bool AtEnd() const {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const Worker& worker) { return worker.at_end && worker.ranges.empty(); });
  }

  const uint64_t epoch_ = *rc::gen::inRange<uint64_t>(1, 40);
  uint64_t batch_ = 1;
  uint64_t length_ = 0;
  std::optional<RangeDispenser> dispenser_;
  std::vector<Worker> workers_;
  uint64_t last_holder_ = 0;
  std::set<uint64_t> trained_;
  size_t done_before_ = 0;  // this run
  v1::Manifest saved_;
  std::set<uint64_t> saved_trained_;
};

enum class Event { kTake, kTrain, kDie, kSave, kRestart, kResume };

// No position is trained on twice, or behind the length of the run; a run that is not shorter than
// what was done before it ends with its length of examples, and a shorter one trains on nothing.
RC_GTEST_PROP(RangeDispenser, AJobTrainsOnItsLengthWhateverItsLife, ()) {
  Life life;
  const auto events = *rc::gen::container<std::vector<Event>>(
      rc::gen::weightedElement<Event>({{8, Event::kTake},
                                       {16, Event::kTrain},
                                       {1, Event::kDie},
                                       {2, Event::kSave},
                                       {1, Event::kRestart},
                                       {2, Event::kResume}}));
  for (const Event event : events) {
    const auto index = *rc::gen::inRange<size_t>(0, 12);
    if (event == Event::kTake) life.Take(index);
    if (event == Event::kTrain) life.Train(index);
    if (event == Event::kDie) life.Die(index);
    if (event == Event::kSave) life.Save();
    if (event == Event::kRestart) life.RestartTheCoordinator();
    if (event == Event::kResume) life.Resume();
  }
  life.GoOnToTheEnd();
}

}  // namespace
}  // namespace weir
