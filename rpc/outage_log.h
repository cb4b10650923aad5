// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace weir {

// What a person is told of calls that fail and are tried again: nothing for 10 s, then every 30 s
// that they still fail, and once that they succeed again. Thread-compatible.
class OutageLog {
 public:
  static constexpr absl::Duration kFirst = absl::Seconds(10);
  static constexpr absl::Duration kEvery = absl::Seconds(30);

  // A call to `peer` ("server ps-0 (HOST:PORT)") has failed; it is tried again until `until`
  // (infinite: for ever). Returns what is to be told now, or "".
  std::string Fail(const std::string& peer, absl::string_view reason, absl::Time now,
                   absl::Time until);
  // A call has succeeded. Returns the same.
  std::string Succeed(const std::string& peer, absl::Time now);

  bool empty() const { return outages_.empty(); }

 private:
  struct Outage {
    absl::Time began;
    absl::Time tell_at;
    bool told = false;
  };
  std::map<std::string, Outage> outages_;  // by peer
};

}  // namespace weir
