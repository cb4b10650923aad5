// SPDX-License-Identifier: Apache-2.0
// The way of a push: checked, admitted or held, applied chunk by chunk, answered.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "rpc/errors.h"
#include "server/parameter_store.h"

namespace weir {

void ParameterStore::Push(const v1::PushRequest& request, Payload payload, absl::Time deadline,
                          PushReplyTo reply) {
  const Carrier carrier = reply.wants_weights() ? Carrier::kBoth : Carrier::kRequest;
  absl::StatusOr<std::unique_ptr<PushMessage>> message = CheckMessage(request, payload, carrier);
  if (!message.ok()) return std::move(reply).Fail(message.status());
  (*message)->deadline = deadline;
  (*message)->reply = std::move(reply);
  StoreEffects effects;
  {
    MutexLock lock(mutex_);
    Admit(*std::move(message), effects);
  }
  RunEffects(effects);
}

absl::StatusOr<std::unique_ptr<PushMessage>> ParameterStore::CheckMessage(
    const v1::PushRequest& request, Payload& payload, Carrier carrier) {
  WEIR_RETURN_IF_ERROR(CheckContextNow(request.context()));
  if (static_cast<WorkerId>(request.context().worker()) == WorkerId::kReader) {
    return absl::InvalidArgumentError("worker is 0: a reader may only pull");
  }
  auto message = std::make_unique<PushMessage>();
  WEIR_ASSIGN_OR_RETURN(message->segments,
                        ResolveSegments(*plan_, request.segments(), carrier, payload.size()));
  WEIR_ASSIGN_OR_RETURN(message->header, CheckPush(request, *plan_, message->segments));
  WEIR_RETURN_IF_ERROR(CheckServing(message->segments));
  WEIR_RETURN_IF_ERROR(CheckValues(message->header, message->segments, payload));
  message->payload = std::move(payload);
  return message;
}

void ParameterStore::Admit(std::unique_ptr<PushMessage> message, StoreEffects& effects) {
  const PushHeader& push = message->header;
  if (!ended_.ok()) return effects.Fail(std::move(message), ended_);
  const MemberInfo* const member = members_->Find(push.worker);
  if (member == nullptr) {
    return effects.Fail(std::move(message), NotAMember(push.worker, "it has just left"));
  }
  message->header.sync_group = member->sync_group;
  if (message->segments.empty()) {
    NoteProgress(push);
    return Start(std::move(message), effects);
  }
  const bool stepped = plan_->stepped() && push.group != 0;
  std::shared_ptr<SequenceTracker>& tracker = trackers_[{push.worker, push.group}];
  if (tracker == nullptr) {
    tracker = std::make_shared<SequenceTracker>(plan_->groups()[push.group].chunks);
  }
  message->tracker = tracker;
  if (stepped && push.step < member->first_step) {
    return effects.Fail(std::move(message),
                        absl::FailedPreconditionError(
                            absl::StrCat("step ", push.step, " does not wait for ", NameOf(*member),
                                         ", which counts from step ", member->first_step, " on")));
  }
  const absl::Status in_order = tracker->Admit(
      push.sequence, stepped ? push.group_step : static_cast<uint64_t>(push.sequence));
  if (!in_order.ok()) return effects.Fail(std::move(message), in_order);
  NoteProgress(push);
  const absl::StatusOr<Wait> wait = WaitOf(*message);
  if (!wait.ok()) return effects.Fail(std::move(message), wait.status());
  if (*wait == Wait::kNothing) return Start(std::move(message), effects);
  Hold(std::move(message), effects);
  Advance(effects);  // that its worker has come so far may be what a boundary waited for
}

// How far its worker has come: also what a message without segments is for, to a server that holds
// nothing of the push's group.
void ParameterStore::NoteProgress(const PushHeader& push) {
  if (plan_->stepped()) LedgerOf(push.sync_group).Reach(push.worker, push.step);
  staleness_gate_.Reach(push.worker, push.step);
  if (push.finished) staleness_gate_.Finish(push.worker);
}

// What has been counted before waits for nothing, and neither does what comes late.
absl::StatusOr<ParameterStore::Wait> ParameterStore::WaitOf(const PushMessage& message) {
  const PushHeader& push = message.header;
  if (message.tracker->IsComplete(push.sequence)) return Wait::kNothing;
  if (gate_.Holds(push.sync_group, push.step)) return Wait::kChange;
  if (cut_gate_.Holds(push)) return Wait::kCut;
  if (!message.tracker->IsNext(push.sequence, message.segments)) return Wait::kOrder;
  if (!plan_->stepped() || push.group == 0) return Wait::kNothing;
  const StepLedger& ledger = LedgerOf(push.sync_group);
  const bool late = push.group_step < ledger.next_group_step(push.group);
  if (late && plan_->quorum() > 0) return Wait::kNothing;
  // Where a group goes on from a new group step, no chunk may be closing an old one.
  if (ledger.IsAdrift(push.group) && applying_in_[push.sync_group] > 0) return Wait::kStep;
  WEIR_ASSIGN_OR_RETURN(const bool open, ledger.Admits(push));
  return open ? Wait::kNothing : Wait::kStep;
}

// Of a push that waits for nothing: its group step is open from here on.
void ParameterStore::OpenStepOf(const PushMessage& message) {
  const PushHeader& push = message.header;
  if (!plan_->stepped() || push.group == 0) return;
  StepLedger& ledger = LedgerOf(push.sync_group);
  const bool closed = push.group_step < ledger.next_group_step(push.group);
  if (closed || message.tracker->IsComplete(push.sequence)) return;
  if (ledger.Open(push)) chunks_.ResumeAt(push.place());
}

std::string ParameterStore::Describe(Wait wait, const PushHeader& push) {
  switch (wait) {
    case Wait::kChange:
      return absl::StrCat("the push waited for change ", gate_.change()->id,
                          " of the members, or a checkpoint, at step ", gate_.change()->step);
    case Wait::kCut:
      return "the push waited for the cut of a checkpoint";
    case Wait::kOrder:
      return absl::StrCat("the push waited for this worker's sequence ",
                          static_cast<uint64_t>(push.sequence) - 1);
    case Wait::kStep:
      return MissingIn(
          {push.sync_group, push.group, LedgerOf(push.sync_group).next_group_step(push.group)});
    case Wait::kNothing:
      break;
  }
  return "the push came too late";
}

void ParameterStore::Hold(std::unique_ptr<PushMessage> message, StoreEffects& effects) {
  const PushHeader& push = message->header;
  if (const absl::Status credit = waiting_.held.CheckCredit(*message); !credit.ok()) {
    return effects.Fail(std::move(message), credit);
  }
  if (cut_gate_.IsOpen(push.cut)) ArmCutTimer(push.cut);
  const uint64_t id = ++waiting_.last_id;
  AddDeadline(id, message->deadline);
  waiting_.held.Add(id, std::move(message));
}

std::unique_ptr<PushMessage> ParameterStore::TakeHeld(uint64_t id) {
  waiting_.deadlines.Remove(id);
  return waiting_.held.Take(id);
}

void ParameterStore::ReadmitHeld(StoreEffects& effects) {
  for (auto it = waiting_.held.by_id().begin(); it != waiting_.held.by_id().end();) {
    const uint64_t id = it->first;
    const absl::StatusOr<Wait> wait = WaitOf(*it->second);
    ++it;
    if (!wait.ok()) {
      effects.Fail(TakeHeld(id), wait.status());
    } else if (*wait == Wait::kNothing) {
      Start(TakeHeld(id), effects);
    }
  }
}

void ParameterStore::Start(std::unique_ptr<PushMessage> message, StoreEffects& effects) {
  if (!message->segments.empty()) OpenStepOf(*message);
  ++applying_;
  ++applying_in_[message->header.sync_group];
  if (message->reply.wants_weights() && plan_->stepped() && message->header.group != 0) {
    const uint64_t id = ++waiting_.last_id;
    message->parked = std::make_shared<ParkedReply>(id, message->header, message->segments,
                                                    std::move(message->reply.pull));
    waiting_.parked[id] = message->parked;
    AddDeadline(id, message->deadline);
  }
  effects.ready.push_back(std::move(message));
}

void ParameterStore::ApplyMessage(std::unique_ptr<PushMessage> message, StoreEffects& effects) {
  AppliedPush applied = chunks_.Apply(*message);
  message->payload = Payload();  // its owners are called here, without a lock
  MutexLock lock(mutex_);
  FinishMessage(std::move(message), std::move(applied), effects);
  Advance(effects);
}

void ParameterStore::FinishMessage(std::unique_ptr<PushMessage> message, AppliedPush applied,
                                   StoreEffects& effects) {
  const PushHeader& push = message->header;
  --applying_;
  --applying_in_[push.sync_group];
  if (applied.completes && !(plan_->stepped() && push.group != 0)) {
    ++pushes_[push.group];
    if (push.group != 0) staleness_gate_.Complete(push.worker, push.group, push.step);
    if (push.group != 0) global_step_ = pushes_[push.group];
  }
  NoteClosed(push.sync_group, push.group, applied.closed, effects);
  if (applied.outcome.late()) {
    const StepLedger& ledger = LedgerOf(push.sync_group);
    applied.outcome.set_next_step(ledger.steps_closed());
    applied.outcome.set_next_group_step(ledger.next_group_step(push.group));
  }
  if (message->parked != nullptr) {
    message->parked->outcome = applied.outcome;
    if (!applied.status.ok()) {
      AnswerParked(*message->parked, applied.status, effects);
    } else if (message->parked->Close()) {
      AnswerParked(*message->parked, absl::OkStatus(), effects);
    }
    return;
  }
  if (!applied.status.ok()) return effects.Fail(std::move(message), applied.status);
  if (message->reply.wants_weights() && plan_->bounded_staleness() > 0 && push.group != 0) {
    // Applied, but its worker may be too far ahead for the next step.
    AddPull({.worker = push.worker,
             .step = push.step + 1,
             .segments = std::move(message->segments),
             .done = std::move(message->reply.pull),
             .outcome = applied.outcome},
            message->deadline, effects);
    return;
  }
  effects.replies.push_back([this, self = shared_from_this(), message = std::move(message),
                             outcome = applied.outcome]() mutable {
    if (message->reply.wants_weights()) {
      absl::StatusOr<PullResult> result = ReadWeights(message->segments);
      if (result.ok()) *result->header.mutable_outcome() = outcome;
      std::move(message->reply.pull)(std::move(result));
      return;
    }
    v1::PushReply reply;
    *reply.mutable_outcome() = outcome;
    std::move(message->reply.push)(std::move(reply));
  });
}

// Whoever finds it still parked answers it.
void ParameterStore::AnswerParked(ParkedReply& parked, const absl::Status& status,
                                  StoreEffects& effects) {
  const auto found = waiting_.parked.find(parked.id());
  if (found == waiting_.parked.end()) return;
  std::shared_ptr<ParkedReply> reply = std::move(found->second);
  waiting_.parked.erase(found);
  waiting_.deadlines.Remove(reply->id());
  effects.replies.push_back([this, self = shared_from_this(), reply = std::move(reply),
                             done = parked.TakeDone(), status]() mutable {
    if (!status.ok()) return std::move(done)(status);
    absl::StatusOr<PullResult> result = ReadWeights(reply->segments());
    if (result.ok()) *result->header.mutable_outcome() = reply->outcome;
    std::move(done)(std::move(result));
  });
}

std::string ParameterStore::MissingIn(const GroupStep& step) {
  const std::vector<MemberInfo> missing = chunks_.Missing(step);
  return absl::StrCat("group step ", step.group_step, " of '", plan_->groups()[step.group].name,
                      "' ", missing.empty() ? "is not closed" : "waits for ", NamesOf(missing));
}

}  // namespace weir
