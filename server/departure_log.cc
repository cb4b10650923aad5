// SPDX-License-Identifier: Apache-2.0
#include "server/departure_log.h"

#include <algorithm>
#include <utility>

namespace weir {
namespace {

constexpr size_t kMostEntries = 1024;  // beyond it the oldest are forgotten: nobody asks for them

bool Describes(const v1::Departure& departure, const DepartureLog::Entry& entry) {
  return departure.run_id() == entry.run_id && departure.attempt() == entry.attempt &&
         departure.worker() == static_cast<uint64_t>(entry.worker) &&
         departure.group() == entry.group;
}

}  // namespace

void DepartureLog::Add(Entry entry) {
  MutexLock lock(mutex_);
  entries_.push_back(std::move(entry));
  if (entries_.size() > kMostEntries) entries_.pop_front();
}

std::vector<v1::Departure> DepartureLog::Settled() const {
  std::vector<v1::Departure> settled;
  MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    // Nobody can take a new reference, so a tracker that is only here has come to rest.
    if (entry.tracker.use_count() > 1) continue;
    v1::Departure& departure = settled.emplace_back();
    departure.set_run_id(entry.run_id);
    departure.set_attempt(entry.attempt);
    departure.set_worker(static_cast<uint64_t>(entry.worker));
    departure.set_group(entry.group);
    if (entry.tracker == nullptr) continue;
    departure.set_complete(entry.tracker->complete());
    departure.set_begun(entry.tracker->begun());
  }
  return settled;
}

void DepartureLog::Forget(const google::protobuf::RepeatedPtrField<v1::Departure>& known) {
  MutexLock lock(mutex_);
  for (const v1::Departure& departure : known) {
    std::erase_if(entries_, [&](const Entry& entry) { return Describes(departure, entry); });
  }
}

}  // namespace weir
