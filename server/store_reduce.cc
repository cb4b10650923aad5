// SPDX-License-Identifier: Apache-2.0
// The way of a collective to its table.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/parameter_store.h"

namespace weir {
namespace {

using TableRef = std::shared_ptr<CollectiveTable>;

}  // namespace

void ParameterStore::Reduce(const v1::ReduceRequest& request, Payload payload, absl::Time deadline,
                            ParameterEndpoint::ReduceDone done) {
  const auto enter = [&]() -> absl::StatusOr<std::pair<ReduceCall, TableRef>> {
    WEIR_RETURN_IF_ERROR(CheckContextNow(request.context()));
    WEIR_ASSIGN_OR_RETURN(const ReduceCall call, CheckReduce(request));
    WEIR_ASSIGN_OR_RETURN(TableRef table, EnterStep(call));
    return std::pair(call, std::move(table));
  };
  const auto entered = enter();
  if (!entered.ok()) return std::move(done)(entered.status());
  const auto& [call, table] = *entered;
  table->Reduce(call, std::move(payload), deadline, std::move(done));
}

// A collective begins its step as a push does: a change of members falls before it or after it.
absl::StatusOr<TableRef> ParameterStore::EnterStep(const ReduceCall& call) {
  if (!plan_->stepped() && !alone_) {
    return absl::FailedPreconditionError(
        "this job's workers have no steps in common: collectives over several processes are for "
        "`regime: sync` and sync groups");
  }
  if (plan_->quorum() > 0) {
    return absl::FailedPreconditionError(
        "a job with backup workers has no collectives: they would wait for the late ones");
  }
  StoreEffects effects;
  absl::StatusOr<TableRef> table;
  {
    MutexLock lock(mutex_);
    table = collectives_.Of(call.worker);
    const MemberInfo* const member = members_->Find(call.worker);
    if (plan_->stepped() && member != nullptr) {
      const uint32_t sync_group = member->sync_group;
      StepLedger& ledger = LedgerOf(sync_group);
      ledger.Reach(call.worker, call.step);
      Advance(effects);  // that its worker has come so far may be what a boundary waited for
      if (gate_.Holds(sync_group, call.step)) {
        table = absl::UnavailableError(absl::StrCat("step ", call.step, " waits for change ",
                                                    gate_.change()->id,
                                                    " of the members, or a checkpoint"));
      } else {
        ledger.Begin(call.step);
      }
    }
  }
  RunEffects(effects);
  return table;
}

}  // namespace weir
