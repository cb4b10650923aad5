// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weir {

// The sequences of one worker's pushes in one attempt, by optimizer group, and on which side of a
// checkpoint's cut each lies. Thread-compatible.
class PushLedger {
 public:
  // What a worker tells of a cut: docs of ReportCutRequest.
  struct Cut {
    uint64_t cut = 0;
    std::vector<uint64_t> last_sequence;    // by group; [0] is state
    std::vector<uint64_t> next_group_step;  // by group, after it; 0: nothing is pushed yet
    uint64_t consumed = 0;
    uint64_t next_step = 0;  // after the newest push of parameters; 0: there was none
  };
  // What is known of a push before it begins.
  struct Push {
    uint32_t group = 0;
    uint64_t step = 0;
    uint64_t consumed = 0;
    uint64_t group_step = 0;
  };

  // `groups` with the state group.
  explicit PushLedger(size_t groups = 0) : groups_(groups) {
    cut_.last_sequence.resize(groups);
    cut_.next_group_step.resize(groups);
  }

  // The next sequence of a group. Errors: FailedPrecondition - two are under way, or an earlier one
  // failed, so that nobody knows what of it was applied; or there is no such
  // group; Aborted - an earlier one ended so.
  absl::StatusOr<uint64_t> Begin(const Push& push);
  void End(uint32_t group, uint64_t sequence, const absl::Status& status);

  // How much of the worker's data is behind pushes that are acknowledged.
  uint64_t acknowledged() const;

  // The step after that of the newest push of parameters; 0: there was none.
  uint64_t next_step() const { return next_step_; }

  // Draws the line: what has begun is before it. Nothing where `cut` is not newer than the last
  // one.
  std::optional<Cut> Mark(uint64_t cut);
  uint64_t cut() const { return cut_.cut; }
  // The last sequence of the group that is before the newest cut.
  uint64_t cut_sequence(uint32_t group) const { return cut_.last_sequence[group]; }

 private:
  struct Group {
    uint64_t begun = 0;
    uint64_t next_group_step = 0;
    size_t under_way = 0;
    uint64_t failed = 0;  // sequence
    absl::Status failure;
  };
  struct Open {
    uint32_t group;
    uint64_t sequence;
    uint64_t consumed_before;
  };
  std::vector<Group> groups_;
  std::vector<Open> open_;  // not acknowledged, also those that failed
  uint64_t consumed_ = 0;
  uint64_t next_step_ = 0;
  Cut cut_;
};

}  // namespace weir
