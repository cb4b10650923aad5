// SPDX-License-Identifier: Apache-2.0
#include "coordinator/range_dispenser.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

constexpr int kMostRanges = 1000;  // of one answer

uint64_t SizeOf(const v1::DataRange& range) {
  return range.end() - range.first();
}

template <typename Ranges>
uint64_t SumOf(const Ranges& ranges) {
  uint64_t sum = 0;
  for (const v1::DataRange& range : ranges) sum += SizeOf(range);
  return sum;
}

}  // namespace

void RangeDispenser::Load(const v1::RangesRecord& record) {
  epoch_ = record.next_epoch();
  position_ = record.next_position();
  for (const v1::DataRange& range : record.returned()) PutBack(range);
  for (const v1::HeldRanges& saved : record.workers()) {
    Holding& holding = holdings_[RangeHolder{saved.worker()}];
    holding.request = saved.request();
    holding.answer = saved.answer();
    holding.answers.assign(saved.answers().begin(), saved.answers().end());
    holding.held.assign(saved.held().begin(), saved.held().end());
    holding.consumed = saved.consumed();
  }
}

v1::RangesRecord RangeDispenser::Save() const {
  v1::RangesRecord record;
  record.set_next_epoch(epoch_);
  record.set_next_position(position_);
  for (const v1::DataRange& range : returned_) *record.add_returned() = range;
  for (const v1::DataRange& range : behind_) *record.add_returned() = range;
  for (const auto& [holder, holding] : holdings_) {
    v1::HeldRanges& saved = *record.add_workers();
    saved.set_worker(static_cast<uint64_t>(holder));
    saved.set_request(holding.request);
    *saved.mutable_answer() = holding.answer;
    for (const v1::TakeRangesReply& answer : holding.answers) *saved.add_answers() = answer;
    for (const v1::DataRange& range : holding.held) *saved.add_held() = range;
    saved.set_consumed(holding.consumed);
  }
  return record;
}

void RangeDispenser::Start(Place place) {
  returned_.clear();
  behind_.clear();
  for (v1::DataRange& range : place.unfinished) {
    range.set_end(std::min(range.end(), options_.epoch_examples));
    PutBack(std::move(range));
  }
  std::sort(behind_.begin(), behind_.end(), [](const v1::DataRange& a, const v1::DataRange& b) {
    return std::make_pair(a.epoch(), a.first()) < std::make_pair(b.epoch(), b.first());
  });
  uint64_t next = place.epoch * options_.epoch_examples + place.position;
  // What is at the end of all that was handed out counts as not handed out.
  while (!behind_.empty()) {
    const v1::DataRange& last = behind_.back();
    const uint64_t before = last.epoch() * options_.epoch_examples;
    if (before + last.end() != next) break;
    next = before + last.first();
    behind_.pop_back();
  }
  epoch_ = next / options_.epoch_examples;
  position_ = next % options_.epoch_examples;
  holdings_.clear();
  frozen_ = false;
}

void RangeDispenser::PutBack(v1::DataRange range) {
  const uint64_t before = range.epoch() * options_.epoch_examples;
  const uint64_t length = options_.total_examples - std::min(options_.total_examples, before);
  v1::DataRange behind = range;
  behind.set_first(std::max(range.first(), length));
  range.set_end(std::min(range.end(), length));
  if (range.first() < range.end()) returned_.push_back(std::move(range));
  if (behind.first() < behind.end()) behind_.push_back(std::move(behind));
}

uint64_t RangeDispenser::handed_out() const {
  return epoch_ * options_.epoch_examples + position_;
}

uint64_t RangeDispenser::left() const {
  const uint64_t handed = handed_out();
  const uint64_t there =
      SumOf(returned_) + options_.total_examples - std::min(options_.total_examples, handed);
  // The length less what is done and held: those are what was handed out and is not back.
  const uint64_t wanted = options_.total_examples + SumOf(returned_) + SumOf(behind_);
  return std::min(there, wanted - std::min(wanted, handed));
}

// Who asks before its ranges are at their end must not gather the others' share bit by bit.
uint64_t RangeDispenser::Share(const Holding& holding, uint64_t holders) const {
  const uint64_t parts = 2 * std::max<uint64_t>(1, holders);
  uint64_t unfinished = left();
  for (const auto& [holder, other] : holdings_) unfinished += SumOf(other.held);
  const uint64_t fair = unfinished / parts;
  return std::min(left() / parts, fair - std::min(fair, SumOf(holding.held)));
}

bool RangeDispenser::OthersHold(RangeHolder holder) const {
  return std::any_of(holdings_.begin(), holdings_.end(), [&](const auto& entry) {
    return entry.first != holder && !entry.second.held.empty();
  });
}

v1::DataRange RangeDispenser::TakeOne(uint64_t examples) {
  v1::DataRange range;
  if (!returned_.empty()) {
    range = returned_.front();
    if (SizeOf(range) > examples) {
      range.set_end(range.first() + examples);
      returned_.front().set_first(range.end());
    } else {
      returned_.pop_front();
    }
    return range;
  }
  const uint64_t to_end = options_.total_examples - std::min(options_.total_examples, handed_out());
  range.set_epoch(epoch_);
  range.set_first(position_);
  range.set_end(position_ + std::min({examples, options_.epoch_examples - position_, to_end}));
  position_ = range.end();
  if (position_ == options_.epoch_examples) {
    ++epoch_;
    position_ = 0;
  }
  return range;
}

absl::StatusOr<v1::TakeRangesReply> RangeDispenser::Take(RangeHolder holder,
                                                         const v1::TakeRangesRequest& request,
                                                         uint64_t holders) {
  Holding& holding = holdings_[holder];
  if (request.request() > 0 && request.request() <= holding.answers.size()) {
    Consume(holder, request.consumed());
    return holding.answers[request.request() - 1];
  }
  if (request.request() < holding.request) {
    return absl::InvalidArgumentError(
        absl::StrCat("request ", request.request(), " is older than the last, ", holding.request));
  }
  if (request.request() == holding.request && request.request() > 0) return holding.answer;
  Consume(holder, request.consumed());
  v1::TakeRangesReply reply;
  // Not recorded: the next call of this number may get some.
  if (frozen_) return reply;
  const uint64_t share = Share(holding, holders);
  const uint64_t batches =
      (std::min(request.examples(), share) + options_.batch - 1) / options_.batch;
  uint64_t wanted = std::max<uint64_t>(1, batches) * options_.batch;
  while (wanted > 0 && left() > 0 && reply.ranges_size() < kMostRanges) {
    const v1::DataRange range = TakeOne(std::min(wanted, left()));
    // A short batch is a batch.
    const uint64_t whole = (SizeOf(range) + options_.batch - 1) / options_.batch * options_.batch;
    wanted -= std::min(wanted, whole);
    holding.held.push_back(range);
    *reply.add_ranges() = range;
  }
  reply.set_end_of_data(reply.ranges().empty() && !OthersHold(holder));
  if (!reply.ranges().empty()) {
    holding.request = request.request();
    holding.answer = reply;
    if (options_.shared) holding.answers.push_back(reply);
  }
  return reply;
}

void RangeDispenser::Drop(Holding& holding, uint64_t consumed) {
  while (holding.consumed < consumed && !holding.held.empty()) {
    v1::DataRange& front = holding.held.front();
    const uint64_t take = std::min(consumed - holding.consumed, SizeOf(front));
    front.set_first(front.first() + take);
    holding.consumed += take;
    if (SizeOf(front) == 0) holding.held.pop_front();
  }
}

void RangeDispenser::Consume(RangeHolder holder, uint64_t consumed) {
  const auto found = holdings_.find(holder);
  if (found == holdings_.end()) return;
  Holding& holding = found->second;
  holding.reported = std::max(holding.reported, consumed);
  if (!frozen_) Drop(holding, holding.reported);
}

uint64_t RangeDispenser::HeldExamples(RangeHolder holder) const {
  const auto found = holdings_.find(holder);
  return found == holdings_.end() ? 0 : SumOf(found->second.held);
}

void RangeDispenser::Return(RangeHolder holder) {
  const auto found = holdings_.find(holder);
  if (found == holdings_.end()) return;
  Drop(found->second, found->second.reported);  // also of what it had reported while frozen
  for (const v1::DataRange& range : found->second.held) PutBack(range);
  holdings_.erase(found);
}

void RangeDispenser::Forget(RangeHolder holder) {
  holdings_.erase(holder);
}

void RangeDispenser::Freeze() {
  frozen_ = true;
}

void RangeDispenser::Thaw() {
  frozen_ = false;
  for (auto& [holder, holding] : holdings_) Drop(holding, holding.reported);
}

void RangeDispenser::FillManifest(const std::map<RangeHolder, uint64_t>& consumed,
                                  v1::Manifest& manifest) const {
  manifest.set_next_epoch(epoch_);
  manifest.set_next_position(position_);
  for (const v1::DataRange& range : returned_) *manifest.add_unfinished() = range;
  for (const v1::DataRange& range : behind_) *manifest.add_unfinished() = range;
  for (const auto& [holder, holding] : holdings_) {
    Holding at_cut = holding;
    const auto found = consumed.find(holder);
    if (found != consumed.end()) Drop(at_cut, found->second);
    for (const v1::DataRange& range : at_cut.held) *manifest.add_unfinished() = range;
  }
}

}  // namespace weir
