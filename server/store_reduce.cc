// SPDX-License-Identifier: Apache-2.0
// The way of a collective to its table.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/parameter_store.h"

namespace weir {

void ParameterStore::Reduce(const v1::ReduceRequest& request, Payload payload, absl::Time deadline,
                            ParameterEndpoint::ReduceDone done) {
  absl::StatusOr<ReduceCall> call = CheckReduce(request);
  absl::Status status = CheckContextNow(request.context());
  if (status.ok()) status = call.status();
  if (status.ok()) status = EnterStep(*call);
  if (!status.ok()) return std::move(done)(status);
  collectives_->Reduce(*call, std::move(payload), deadline, std::move(done));
}

// A collective begins its step as a push does: a change of members falls before it or after it.
absl::Status ParameterStore::EnterStep(const ReduceCall& call) {
  if (!plan_->sync()) {
    if (alone_) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "this job's workers have no steps in common: collectives over several processes are for "
        "`regime: sync`");
  }
  if (plan_->quorum() > 0) {
    return absl::FailedPreconditionError(
        "a job with backup workers has no collectives: they would wait for the late ones");
  }
  StoreEffects effects;
  absl::Status held;
  {
    MutexLock lock(mutex_);
    StepLedger& ledger = LedgerOf(0);
    ledger.Reach(call.worker, call.step);
    Advance(effects);  // that its worker has come so far may be what a boundary waited for
    if (gate_.Holds(0, call.step)) {
      held = absl::UnavailableError(absl::StrCat("step ", call.step, " waits for change ",
                                                 gate_.change()->id,
                                                 " of the members, or a checkpoint"));
    } else {
      ledger.Begin(call.step);
    }
  }
  RunEffects(effects);
  return held;
}

}  // namespace weir
