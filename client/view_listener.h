// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "client/push_ledger.h"
#include "weir/v1/view.pb.h"

namespace weir {

// A cut that a client has marked, for ReportCut.
struct CutReport {
  uint64_t attempt = 0;
  PushLedger::Cut cut;
};

// The side of a client that faces its session. Implementations are thread-safe and do not block.
class ViewListener {
 public:
  virtual ~ViewListener() = default;

  // A view of the job; one that is not newer than the last is ignored. Errors: InvalidArgument - it
  // contradicts itself, says where, and is ignored: that before it stays in force.
  virtual absl::Status OnView(std::shared_ptr<const v1::JobView> view) = 0;
  // The worker knows of this attempt now and goes on in it. Repeated: nothing.
  virtual void Adopt(uint64_t attempt) = 0;
  // A server has answered that this attempt is over, or that this worker is no member of it: the
  // view that says so is on its way.
  virtual bool IsOver(uint64_t attempt) const = 0;
  // PushOptions.consumed up to which every push of this attempt is acknowledged.
  virtual uint64_t acknowledged_examples() const = 0;
  // The step after that of the newest push in this attempt; 0: there was none.
  virtual uint64_t next_step() const = 0;
};

}  // namespace weir
