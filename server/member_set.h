// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/mutex.h"
#include "rpc/worker_id.h"
#include "weir/v1/view.pb.h"

namespace weir {

struct MemberInfo {
  uint32_t rank = 0;
  WorkerId worker{};
  uint64_t first_step = 0;  // sync: the first step that waits for it
  uint32_t sync_group = 0;  // whom it is in step with; 0 where all are
};

// "rank 1 (worker 00000000000000ab)"
std::string NameOf(const MemberInfo& member);
std::string NamesOf(absl::Span<const MemberInfo> members);

// The members of a job at one generation. Immutable, thread-safe.
class MemberSet {
 public:
  MemberSet() = default;
  explicit MemberSet(const google::protobuf::RepeatedPtrField<v1::Member>& members);

  absl::Span<const MemberInfo> by_rank() const { return members_; }
  bool empty() const { return members_.empty(); }
  // The first step that waits for any of them, by sync group.
  std::map<uint32_t, uint64_t> first_steps() const;
  // nullptr: no member.
  const MemberInfo* Find(WorkerId worker) const;
  // Those who are in step with each other: whom their collectives span.
  MemberSet OfSyncGroup(uint32_t sync_group) const;

 private:
  std::vector<MemberInfo> members_;
};

// The newest set. Thread-safe; its lock is a leaf, so that a chunk can ask while it is locked: a
// contribution that comes after a change of members sees the change, and one that came before is
// seen by the walk over the chunks that follows the change.
class CurrentMembers {
 public:
  std::shared_ptr<const MemberSet> Get() const {
    MutexLock lock(mutex_);
    return members_;
  }
  void Set(std::shared_ptr<const MemberSet> members) {
    MutexLock lock(mutex_);
    std::swap(members_, members);
  }

 private:
  mutable Mutex mutex_;
  // Shared: who asked for a set goes on with it while a newer one comes in force.
  std::shared_ptr<const MemberSet> members_ ABSL_GUARDED_BY(mutex_) =
      std::make_shared<const MemberSet>();
};

}  // namespace weir
