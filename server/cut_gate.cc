// SPDX-License-Identifier: Apache-2.0
#include "server/cut_gate.h"

#include <algorithm>

namespace weir {

bool CutGate::Holds(const PushHeader& push) const {
  const bool beyond_own_mark = IsOpen(push.cut) && push.sequence > push.cut_sequence;
  if (!under_way_.has_value()) return beyond_own_mark;
  if (beyond_own_mark && push.cut > *under_way_) return true;
  // The coordinator's word counts: members of a sync group are brought to the same group step.
  const auto mark = marks_.find({push.worker, push.group});
  // A worker without a mark has joined since: all of its pushes are later.
  return push.sequence > (mark == marks_.end() ? Sequence{0} : Sequence{mark->second});
}

void CutGate::Begin(uint64_t cut, absl::Span<const v1::CutMark> marks) {
  under_way_ = cut;
  marks_.clear();
  for (const v1::CutMark& mark : marks) {
    marks_[{static_cast<WorkerId>(mark.worker()), mark.group()}] = mark.last_sequence();
  }
}

void CutGate::Settle(uint64_t cut) {
  settled_ = std::max(settled_, cut);
  if (under_way_.has_value() && *under_way_ <= settled_) {
    under_way_.reset();
    marks_.clear();
  }
}

}  // namespace weir
