// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"
#include "coordinator/turn.h"
#include "weir/v1/view.pb.h"

namespace weir {

class CoordinatedJob;

// The servers of one job load the checkpoint that its attempt begins from. One that is away, or
// that waits for another's part, is asked again; damage takes the job back to an older checkpoint,
// or ends it. Thread-compatible.
class Restoration {
 public:
  // `job` owns this.
  explicit Restoration(CoordinatedJob& job) : job_(job) {}

  // Asks all servers, by the job's present view, which must be published before. When all have
  // loaded theirs, in a later turn, the job runs.
  void Start(Turn& turn);

 private:
  void Ask(const v1::ServerInfo& server, Turn& turn);
  void AskLater(const v1::ServerInfo& server, Turn& turn);
  bool IsOf(uint64_t attempt) const;
  void OnAnswer(const v1::ServerInfo& server, uint64_t attempt, const absl::Status& status,
                Turn& turn);
  void OnFailure(const v1::ServerInfo& server, const absl::Status& status, Turn& turn);

  CoordinatedJob& job_;
  std::set<std::string> missing_;  // servers that have not loaded it yet, by name
};

}  // namespace weir
