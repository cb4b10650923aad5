// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "server/collective_table.h"
#include "server/member_set.h"

namespace weir {

// The collectives of one attempt of a job: a table for each sync group, as only its members meet;
// where all are in step there is the one of group 0. Thread-compatible: used under the store's
// lock.
class GroupCollectives {
 public:
  explicit GroupCollectives(CollectiveTable::Options options);

  // Those whom the worker meets; who is no member is told so by any table.
  std::shared_ptr<CollectiveTable> Of(WorkerId worker) const;

  void SetMembers(std::shared_ptr<const MemberSet> members, uint64_t generation,
                  CollectiveTable::Effects& effects);
  void End(const absl::Status& why, CollectiveTable::Effects& effects);

 private:
  const CollectiveTable::Options options_;
  std::shared_ptr<const MemberSet> members_ = std::make_shared<const MemberSet>();
  // By sync group; shared with their timers. Group 0's is always there, the others' as long as
  // somebody is.
  std::map<uint32_t, std::shared_ptr<CollectiveTable>> tables_;
};

}  // namespace weir
