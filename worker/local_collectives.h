// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "worker/collectives.h"
#include "worker/replica_meeting.h"

namespace weir {

// The collectives of the replicas of one process, which meet here; whoever comes last speaks for
// all of them to the other processes. Borrows the meeting. Thread-compatible: BeginStep is called
// between steps, the rest from the replicas' threads, each with its own handle.
class LocalCollectives {
 public:
  struct Step {
    uint64_t step = 0;
    uint64_t attempt = 0;      // of the job
    uint32_t first_id = 0;     // of this process's replicas
    uint32_t first_index = 0;  // their place among all replicas in sync
    uint32_t replicas_in_sync = 1;
    bool newcomer = false;                 // the process: its first step of the attempt
    ProcessCollectives* others = nullptr;  // borrowed; nullptr: this process is all there is
  };

  explicit LocalCollectives(ReplicaMeeting& meeting);

  // The collectives of a step, or of the time before it; those of the step count on from these.
  void BeginStep(const Step& step);
  void BeginBefore(const Step& step);
  // What was called since the last step is called again, from the first on.
  void BeginAgain() { before_ = false; }

  // For a replica, counted from 0 here.
  Collectives& of(uint32_t replica) { return handles_[replica]; }

 private:
  class Handle final : public Collectives {
   public:
    Handle(LocalCollectives& owner, uint32_t replica) : owner_(owner), replica_(replica) {}
    uint32_t replica_id() const override { return owner_.step_.first_id + replica_; }
    uint32_t num_replicas_in_sync() const override { return owner_.step_.replicas_in_sync; }
    uint32_t index() const override { return owner_.step_.first_index + replica_; }
    absl::optional<uint32_t> elder() const override { return owner_.elder_; }
    absl::Status Assemble() override;
    absl::Status Run(const CollectiveCall& call, absl::Span<const std::byte> data,
                     std::vector<std::byte>& result) override;

   private:
    LocalCollectives& owner_;
    const uint32_t replica_;
  };

  void Begin(const Step& step);
  // By the last to come: `contributions` are those of all.
  absl::Status AssembleForAll();
  absl::Status RunForAll(absl::Span<const void* const> contributions);
  absl::Status CheckSource(const CollectiveCall& call) const;
  absl::Status RunWithOthers(CollectiveCall call, std::vector<std::byte>& data);

  ReplicaMeeting& meeting_;
  std::vector<Handle> handles_;
  Step step_;
  uint32_t ordinal_ = 0;         // of the next collective of the step; touched in meetings only
  bool before_ = false;          // the step that is next
  bool assembled_ = false;       // the others of the step are known:
  std::vector<uint32_t> ranks_;  // of the processes in sync, in order
  absl::optional<uint32_t> elder_;
};

}  // namespace weir
