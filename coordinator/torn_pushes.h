// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>

#include "weir/v1/coordinator.pb.h"
#include "weir/v1/coordinator_state.pb.h"

namespace weir {

// Counts the pushes of one run that are torn: some of their chunks have counted, the others never
// will, because their worker is gone. A push over several servers is no transaction, and one server
// alone cannot tell: each says how far the worker had come there, and of those numbers
//
//   server A:  1 2 3 4 5     complete 5, begun 5
//   server B:  1 2 3 4 (5)   complete 4, begun 5: some chunks of 5
//   server C:  1 2 3         complete 3, begun 3
//
// the sequences above the lowest `complete` up to the highest `begun` are torn, here 4 and 5. The
// count never falls, whatever comes late or twice. Thread-compatible.
class TornPushes {
 public:
  void Load(const v1::JobRecord& record);
  void Save(v1::JobRecord& record) const;

  // What one server has counted. True: it was news.
  bool Add(const v1::Departure& departure);
  uint64_t count() const;

 private:
  uint64_t settled_ = 0;              // of departures that are no longer listed
  std::deque<v1::Departure> newest_;  // of each attempt, worker and group, over the servers
};

}  // namespace weir
