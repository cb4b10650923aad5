// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "weir/v1/coordinator.pb.h"
#include "weir/v1/coordinator_state.pb.h"

namespace weir {

// Who takes ranges: a worker by its id, or, in sync groups, a group by its number.
enum class RangeHolder : uint64_t {};

// Hands the positions of an `async` job's data out, each once, in whole batches (the last of an
// epoch may be short); what a dead worker had not finished is handed out again first. No more than
// the job's length less what is done, also where some of that is behind the length: a run before
// was longer, and stopped with the data handed out far ahead. Thread-compatible.
class RangeDispenser {
 public:
  struct Options {
    uint64_t epoch_examples = 0;  // > 0
    uint64_t batch = 0;           // > 0; of one worker
    uint64_t total_examples = 0;  // over all epochs, where handing out ends
    bool shared = false;          // several take the same ranges, and some join later: sync groups
  };

  explicit RangeDispenser(const Options& options) : options_(options) {}

  void Load(const v1::RangesRecord& record);
  v1::RangesRecord Save() const;

  // Where handing out goes on: examples of an epoch, after the `unfinished` ranges. What of these
  // is behind the job's length, which was longer then, waits for a run that is longer again; what
  // is beyond the end of an epoch (the training set was larger then) is left out.
  struct Place {
    uint64_t epoch = 0;
    uint64_t position = 0;
    std::vector<v1::DataRange> unfinished = {};
  };
  // A new attempt; nobody holds anything.
  void Start(Place place);

  // About as many examples as the request says, but, with what it holds, not more than a fair share
  // of what is left among so many holders, so that nobody trains alone at the end; a batch at
  // least, and at most 1,000 ranges. A repeated request gets the same answer.
  // Errors: InvalidArgument - an older request than the last.
  absl::StatusOr<v1::TakeRangesReply> Take(RangeHolder holder, const v1::TakeRangesRequest& request,
                                           uint64_t holders);
  // `consumed`: examples of the holder's ranges, in the order of handing out; may repeat or lag.
  void Consume(RangeHolder holder, uint64_t consumed);
  // Handed to the holder and not consumed, as far as is known.
  uint64_t HeldExamples(RangeHolder holder) const;
  // The holder is gone: others get what it has not finished.
  void Return(RangeHolder holder);
  // The holder is gone, and had finished.
  void Forget(RangeHolder holder);

  // While a cut is being marked, ranges stay as they are: Take answers none, Consume is noted only.
  void Freeze();
  void Thaw();
  // The position of a cut at which each holder had consumed so much. Frozen.
  void FillManifest(const std::map<RangeHolder, uint64_t>& consumed, v1::Manifest& manifest) const;

 private:
  struct Holding {
    uint64_t request = 0;
    v1::TakeRangesReply answer;
    std::vector<v1::TakeRangesReply> answers;  // shared: to all requests, from 1
    std::deque<v1::DataRange> held;
    uint64_t consumed = 0;  // before `held`
    uint64_t reported = 0;  // consumed, noted while frozen
  };

  uint64_t handed_out() const;  // examples before the cursor
  uint64_t left() const;        // to be handed out
  // Puts a range that nobody holds where it belongs.
  void PutBack(v1::DataRange range);
  // What one of so many holders, with what it holds, may get now.
  uint64_t Share(const Holding& holding, uint64_t holders) const;
  bool OthersHold(RangeHolder holder) const;
  // Up to `examples`, from the returned ranges or else from the cursor; `examples` is in batches.
  v1::DataRange TakeOne(uint64_t examples);
  static void Drop(Holding& holding, uint64_t consumed);

  const Options options_;
  uint64_t epoch_ = 0;
  uint64_t position_ = 0;
  bool frozen_ = false;
  std::deque<v1::DataRange> returned_;
  std::vector<v1::DataRange> behind_;  // the length; not handed out
  std::map<RangeHolder, Holding> holdings_;
};

}  // namespace weir
