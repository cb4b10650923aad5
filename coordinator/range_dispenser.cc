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
  returned_.assign(record.returned().begin(), record.returned().end());
  for (const v1::HeldRanges& saved : record.workers()) {
    Holder& holder = holders_[saved.worker()];
    holder.request = saved.request();
    holder.answer = saved.answer();
    holder.answers.assign(saved.answers().begin(), saved.answers().end());
    holder.held.assign(saved.held().begin(), saved.held().end());
    holder.consumed = saved.consumed();
  }
}

v1::RangesRecord RangeDispenser::Save() const {
  v1::RangesRecord record;
  record.set_next_epoch(epoch_);
  record.set_next_position(position_);
  for (const v1::DataRange& range : returned_) *record.add_returned() = range;
  for (const auto& [worker, holder] : holders_) {
    v1::HeldRanges& saved = *record.add_workers();
    saved.set_worker(worker);
    saved.set_request(holder.request);
    *saved.mutable_answer() = holder.answer;
    for (const v1::TakeRangesReply& answer : holder.answers) *saved.add_answers() = answer;
    for (const v1::DataRange& range : holder.held) *saved.add_held() = range;
    saved.set_consumed(holder.consumed);
  }
  return record;
}

void RangeDispenser::Start(uint64_t epoch, uint64_t position,
                           std::vector<v1::DataRange> unfinished) {
  epoch_ = epoch + position / options_.epoch_examples;
  position_ = position % options_.epoch_examples;
  returned_.clear();
  for (v1::DataRange& range : unfinished) {
    range.set_end(std::min(range.end(), options_.epoch_examples));
    if (range.first() < range.end()) returned_.push_back(std::move(range));
  }
  holders_.clear();
  frozen_ = false;
}

uint64_t RangeDispenser::handed_out() const {
  return epoch_ * options_.epoch_examples + position_;
}

uint64_t RangeDispenser::left() const {
  const uint64_t handed = handed_out();
  return SumOf(returned_) +
         (options_.total_examples > handed ? options_.total_examples - handed : 0);
}

// Who asks before its ranges are at their end must not gather the others' share bit by bit.
uint64_t RangeDispenser::Share(uint64_t held, uint64_t workers) const {
  const uint64_t parts = 2 * std::max<uint64_t>(1, workers);
  uint64_t unfinished = left();
  for (const auto& [worker, holder] : holders_) unfinished += SumOf(holder.held);
  const uint64_t fair = unfinished / parts;
  return std::min(left() / parts, fair - std::min(fair, held));
}

bool RangeDispenser::OthersHold(uint64_t worker) const {
  return std::any_of(holders_.begin(), holders_.end(), [&](const auto& entry) {
    return entry.first != worker && !entry.second.held.empty();
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

absl::StatusOr<v1::TakeRangesReply> RangeDispenser::Take(const v1::TakeRangesRequest& request,
                                                         uint64_t examples, uint64_t workers) {
  Holder& holder = holders_[request.worker()];
  if (request.request() > 0 && request.request() <= holder.answers.size()) {
    Consume(request.worker(), request.consumed());
    return holder.answers[request.request() - 1];
  }
  if (request.request() < holder.request) {
    return absl::InvalidArgumentError(
        absl::StrCat("request ", request.request(), " is older than the last, ", holder.request));
  }
  if (request.request() == holder.request && request.request() > 0) return holder.answer;
  Consume(request.worker(), request.consumed());
  v1::TakeRangesReply reply;
  // Not recorded: the next call of this number may get some.
  if (frozen_) return reply;
  const uint64_t share = Share(SumOf(holder.held), workers);
  const uint64_t batches = (std::min(examples, share) + options_.batch - 1) / options_.batch;
  uint64_t wanted = std::max<uint64_t>(1, batches) * options_.batch;
  while (wanted > 0 && left() > 0 && reply.ranges_size() < kMostRanges) {
    const v1::DataRange range = TakeOne(wanted);
    // A short batch is a batch.
    const uint64_t whole = (SizeOf(range) + options_.batch - 1) / options_.batch * options_.batch;
    wanted -= std::min(wanted, whole);
    holder.held.push_back(range);
    *reply.add_ranges() = range;
  }
  reply.set_end_of_data(reply.ranges().empty() && !OthersHold(request.worker()));
  if (!reply.ranges().empty()) {
    holder.request = request.request();
    holder.answer = reply;
    if (options_.shared) holder.answers.push_back(reply);
  }
  return reply;
}

void RangeDispenser::Drop(Holder& holder, uint64_t consumed) {
  while (holder.consumed < consumed && !holder.held.empty()) {
    v1::DataRange& front = holder.held.front();
    const uint64_t take = std::min(consumed - holder.consumed, SizeOf(front));
    front.set_first(front.first() + take);
    holder.consumed += take;
    if (SizeOf(front) == 0) holder.held.pop_front();
  }
}

void RangeDispenser::Consume(uint64_t worker, uint64_t consumed) {
  const auto found = holders_.find(worker);
  if (found == holders_.end()) return;
  Holder& holder = found->second;
  holder.reported = std::max(holder.reported, consumed);
  if (!frozen_) Drop(holder, holder.reported);
}

uint64_t RangeDispenser::HeldExamples(uint64_t worker) const {
  const auto found = holders_.find(worker);
  return found == holders_.end() ? 0 : SumOf(found->second.held);
}

void RangeDispenser::Return(uint64_t worker) {
  const auto found = holders_.find(worker);
  if (found == holders_.end()) return;
  Drop(found->second, found->second.reported);  // also of what it had reported while frozen
  for (const v1::DataRange& range : found->second.held) returned_.push_back(range);
  holders_.erase(found);
}

void RangeDispenser::Forget(uint64_t worker) {
  holders_.erase(worker);
}

void RangeDispenser::Freeze() {
  frozen_ = true;
}

void RangeDispenser::Thaw() {
  frozen_ = false;
  for (auto& [worker, holder] : holders_) Drop(holder, holder.reported);
}

void RangeDispenser::FillManifest(const std::map<uint64_t, uint64_t>& consumed,
                                  v1::Manifest& manifest) const {
  manifest.set_next_epoch(epoch_);
  manifest.set_next_position(position_);
  for (const v1::DataRange& range : returned_) *manifest.add_unfinished() = range;
  for (const auto& [worker, holder] : holders_) {
    Holder at_cut = holder;
    const auto found = consumed.find(worker);
    if (found != consumed.end()) Drop(at_cut, found->second);
    for (const v1::DataRange& range : at_cut.held) *manifest.add_unfinished() = range;
  }
}

}  // namespace weir
