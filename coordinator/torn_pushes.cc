// SPDX-License-Identifier: Apache-2.0
#include "coordinator/torn_pushes.h"

#include <algorithm>

namespace weir {
namespace {

// More than leave within the few heartbeats that all servers' reports take.
constexpr size_t kMostListed = 256;

uint64_t TornOf(const v1::Departure& departure) {
  return departure.begun() - departure.complete();
}

}  // namespace

void TornPushes::Load(const v1::JobRecord& record) {
  settled_ = record.torn_pushes();
  newest_.assign(record.departures().begin(), record.departures().end());
}

void TornPushes::Save(v1::JobRecord& record) const {
  record.set_torn_pushes(settled_);
  for (const v1::Departure& departure : newest_) *record.add_departures() = departure;
}

bool TornPushes::Add(const v1::Departure& departure) {
  if (departure.begun() < departure.complete()) return false;
  const auto known = std::find_if(newest_.begin(), newest_.end(), [&](const v1::Departure& other) {
    return other.attempt() == departure.attempt() && other.worker() == departure.worker() &&
           other.group() == departure.group();
  });
  if (known == newest_.end()) {
    newest_.push_back(departure);
    if (newest_.size() > kMostListed) {
      settled_ += TornOf(newest_.front());
      newest_.pop_front();
    }
    return true;
  }
  const uint64_t complete = std::min(known->complete(), departure.complete());
  const uint64_t begun = std::max(known->begun(), departure.begun());
  const bool news = complete != known->complete() || begun != known->begun();
  known->set_complete(complete);
  known->set_begun(begun);
  return news;
}

uint64_t TornPushes::count() const {
  uint64_t count = settled_;
  for (const v1::Departure& departure : newest_) count += TornOf(departure);
  return count;
}

}  // namespace weir
