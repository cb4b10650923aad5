// SPDX-License-Identifier: Apache-2.0
#include "coordinator/checkpoint_saver.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "checkpoint/manifest.h"
#include "coordinator/checkpoint_removal.h"
#include "coordinator/coordinated_job.h"
#include "coordinator/sync_groups.h"
#include "coordinator/turn_log.h"
#include "rpc/backoff.h"
#include "rpc/protocol.h"
#include "rpc/regime.h"

namespace weir {
namespace {

constexpr absl::Duration kMarkTime = absl::Seconds(5);
constexpr absl::Duration kSaveTimeout = absl::Minutes(10);
constexpr absl::Duration kFirstRetry = absl::Milliseconds(500);
constexpr absl::Duration kLongestRetry = absl::Seconds(60);
constexpr int kPatience = 5;  // failures in a row before those who wait are told

}  // namespace

template <typename Result, typename Fn>
auto CheckpointSaver::Reenter(Fn fn) {
  return job_.Reenter<Result>([save = save_, fn](CoordinatedJob& job, Turn& turn, Result result) {
    CheckpointSaver& saver = job.saver();
    if (saver.save_ == save && saver.phase_ != Phase::kIdle) fn(saver, turn, std::move(result));
  });
}

void CheckpointSaver::Request(const std::map<std::string, double>& metrics, absl::Time deadline,
                              Done done, Turn& turn) {
  CheckpointWaiters::Waiter waiter{metrics, deadline, std::move(done)};
  if (!StillJoinable()) {
    waiters_.AddToNext(std::move(waiter));
    return;
  }
  waiters_.Add(std::move(waiter));
  if (phase_ == Phase::kIdle && job_.view().state() == v1::JOB_STATE_RUNNING &&
      turn.now() >= retry_at_) {
    Start(turn);
  }
}

// Whether the cut of the one under way is certainly after this moment.
bool CheckpointSaver::StillJoinable() const {
  switch (phase_) {
    case Phase::kIdle:
    case Phase::kBeginning:
      return true;
    case Phase::kCutting:
      if (IsSync(job_.spec())) return job_.change() == nullptr || !job_.change()->committing();
      return marks_.empty() && consumed_.empty() && !unmarked_.empty();
    default:
      return false;
  }
}

std::string CheckpointSaver::Describe() const {
  switch (phase_) {
    case Phase::kIdle:
      return absl::StrCat("the job is to be running; it is ",
                          v1::JobState_Name(job_.view().state()));
    case Phase::kBeginning:
    case Phase::kCommitting:
      return "the coordinator's disk";
    case Phase::kCutting: {
      std::vector<std::string> missing;
      for (const WorkerId worker : unmarked_) missing.push_back(job_.roster().Describe(worker));
      return missing.empty() ? "a step boundary"
                             : absl::StrCat("marks of ", absl::StrJoin(missing, ", "));
    }
    case Phase::kSaving: {
      std::vector<std::string> missing;
      for (size_t i = 0; i < servers_.size(); ++i) {
        if (manifest_.parts(static_cast<int>(i)).files().empty()) {
          missing.push_back(servers_[i].name());
        }
      }
      return absl::StrCat("the parts of ", absl::StrJoin(missing, ", "));
    }
  }
  return "";
}

// Of members that have reported we know it; of those that never do we do not.
bool CheckpointSaver::NothingTrained() const {
  if (!has_news_) return true;
  const v1::ResumePoint& resume = job_.view().resume();
  const bool reported = job_.StepsDone() > resume.step() || job_.roster().examples() > 0;
  return reported && !job_.roster().Members().empty() && job_.StepsDone() == base_steps_ &&
         job_.ExamplesDone() == base_examples_;
}

bool CheckpointSaver::IsDue(const Turn& turn) const {
  if (NothingTrained()) return false;
  const v1::Extent& every = job_.spec().checkpoint().every();
  const uint64_t examples = job_.ExamplesDone() - std::min(job_.ExamplesDone(), base_examples_);
  switch (every.unit_case()) {
    case v1::Extent::kSteps:
      return job_.StepsDone() >= base_steps_ + every.steps();
    case v1::Extent::kExamples:
      return examples >= every.examples();
    case v1::Extent::kEpochs:
      return examples > 0 && static_cast<double>(examples) >=
                                 every.epochs() * static_cast<double>(job_.spec().train_examples());
    case v1::Extent::kSeconds:
      return turn.now() - base_time_ >= absl::Seconds(every.seconds());
    case v1::Extent::UNIT_NOT_SET:
      return false;
  }
  return false;
}

void CheckpointSaver::NoteMembers() {
  if (!job_.roster().Members().empty()) has_news_ = news_since_cut_ = true;
}

void CheckpointSaver::Rebase(absl::Time now, bool saved) {
  has_news_ = !saved;
  base_steps_ = job_.StepsDone();
  base_examples_ = job_.ExamplesDone();
  base_time_ = now;
}

void CheckpointSaver::Tick(Turn& turn) {
  const auto still_waits = [this] {
    return absl::StrCat("the checkpoint of job '", job_.name(), "' still waits for ", Describe());
  };
  waiters_.Expire(still_waits, turn);
  NoteMembers();
  if (phase_ == Phase::kCutting && waiting_for_change_ && job_.change() == nullptr) {
    CutAtStep(turn);
  } else if (phase_ == Phase::kCutting && !unmarked_.empty() && turn.now() >= marks_deadline_) {
    Fail(absl::AbortedError(absl::StrCat("no mark in time: waited for ", Describe())), turn);
  }
  if (phase_ != Phase::kIdle || job_.view().state() != v1::JOB_STATE_RUNNING ||
      turn.now() < retry_at_) {
    return;
  }
  if (!waiters_.empty() || IsDue(turn)) Start(turn);
}

void CheckpointSaver::Start(Turn& turn) {
  ++save_;
  phase_ = Phase::kBeginning;
  manifest_.Clear();
  manifest_.set_job(job_.name());
  manifest_.set_run_id(job_.run_id());
  servers_ = job_.Holders();
  if (servers_.empty()) {
    Fail(absl::FailedPreconditionError("the job has no variables with elements to save"), turn);
    return;
  }
  for (const v1::ServerInfo& server : servers_) manifest_.add_parts()->set_server(server.name());
  turn.Later([catalog = job_.context().checkpoints, planned = manifest_, term = job_.context().term,
              done = Reenter<absl::StatusOr<std::string>>(
                  [](CheckpointSaver& saver, Turn& later, const absl::StatusOr<std::string>& id) {
                    saver.OnBegun(id, later);
                  })]() mutable { catalog->Begin(std::move(planned), term, std::move(done)); });
}

void CheckpointSaver::OnBegun(const absl::StatusOr<std::string>& id, Turn& turn) {
  if (!id.ok()) {
    Fail(id.status(), turn);
    return;
  }
  manifest_.set_id(*id);
  manifest_.set_attempt(job_.view().attempt());
  *manifest_.mutable_spec() = job_.spec();
  *manifest_.mutable_declaration() = job_.view().declaration();
  *manifest_.mutable_shard_map() = job_.view().shard_map();
  Cut(turn);
}

void CheckpointSaver::Cut(Turn& turn) {
  phase_ = Phase::kCutting;
  news_since_cut_ = false;
  cut_ = job_.NextCut();
  marks_.clear();
  consumed_.clear();
  unmarked_.clear();
  if (IsSync(job_.spec())) {
    CutAtStep(turn);
  } else {
    AskForMarks(turn);
  }
}

void CheckpointSaver::CutAtStep(Turn& turn) {
  StepChange::Options options;
  options.first_step = job_.roster().highest_step();
  options.cut = cut_;
  options.deadline = turn.now() + kStepHoldTime;
  auto finished = [save = save_](CoordinatedJob& job, Turn& later,
                                 const StepChange::Result& result) {
    CheckpointSaver& saver = job.saver();
    if (saver.save_ != save || saver.phase_ != Phase::kCutting) return;
    if (result.status.ok()) {
      saver.SaveParts(later);
    } else {
      saver.Fail(result.status, later);
    }
  };
  waiting_for_change_ = !job_.StartChange(std::move(options), std::move(finished), turn);
}

void CheckpointSaver::AskForMarks(Turn& turn) {
  job_.ChangeView().set_cut(cut_);
  marks_deadline_ = turn.now() + kMarkTime;
  for (const v1::Member& member : job_.view().members())
    unmarked_.insert(WorkerId{member.worker()});
  if (job_.ranges() != nullptr) job_.ranges()->Freeze();
  if (unmarked_.empty()) OnMarked(turn);
}

void CheckpointSaver::ReportCut(const v1::ReportCutRequest& request, Turn& turn) {
  if (phase_ != Phase::kCutting || request.cut() != cut_) return;
  if (unmarked_.erase(WorkerId{request.worker()}) == 0) return;
  marks_.insert(marks_.end(), request.marks().begin(), request.marks().end());
  uint64_t& consumed = consumed_[job_.HolderOf(WorkerId{request.worker()})];
  consumed = std::max(consumed, request.consumed());
  if (unmarked_.empty()) OnMarked(turn);
}

void CheckpointSaver::OnMarked(Turn& turn) {
  if (HasSyncGroups(job_.spec())) AlignMarks(job_.view(), marks_);
  if (job_.ranges() != nullptr) {
    job_.ranges()->FillManifest(consumed_, manifest_);
    job_.ranges()->Thaw();
    job_.KeepRanges();
  }
  SaveParts(turn);
}

void CheckpointSaver::SaveParts(Turn& turn) {
  phase_ = Phase::kSaving;
  parts_missing_ = servers_.size();
  v1::SavePartRequest request;
  request.set_term(job_.context().term);
  request.set_run_id(job_.run_id());
  request.set_attempt(manifest_.attempt());
  request.set_cut(cut_);
  request.set_checkpoint_id(manifest_.id());
  request.set_directory(absl::StrCat(job_.name(), "/", manifest_.id()));
  for (const v1::CutMark& mark : marks_) *request.add_marks() = mark;
  for (size_t i = 0; i < servers_.size(); ++i) {
    turn.Later(
        [&transport = job_.context().transport, server = servers_[i], request,
         done = Reenter<absl::StatusOr<v1::SavePartReply>>(
             [i](CheckpointSaver& saver, Turn& later,
                 const absl::StatusOr<v1::SavePartReply>& reply) {
               saver.OnPart(i, reply, later);
             })]() mutable { transport.SavePart(server, request, kSaveTimeout, std::move(done)); });
  }
}

void CheckpointSaver::OnPart(size_t part, const absl::StatusOr<v1::SavePartReply>& reply,
                             Turn& turn) {
  if (phase_ != Phase::kSaving) return;
  if (!reply.ok()) {
    Fail(absl::Status(reply.status().code(), absl::StrCat("server ", servers_[part].name(), ": ",
                                                          reply.status().message())),
         turn);
    return;
  }
  *manifest_.mutable_parts(static_cast<int>(part)) = reply->part();
  if (--parts_missing_ > 0) return;
  const absl::Status complete = Complete();
  if (complete.ok()) {
    Commit(turn);
  } else {
    Fail(complete, turn);
  }
}

// Fills in what follows from the parts, and checks that they are of one cut.
absl::Status CheckpointSaver::Complete() {
  const v1::CheckpointPart& first = manifest_.parts(0);
  for (const v1::CheckpointPart& part : manifest_.parts()) {
    if (part.cut() != cut_ || part.attempt() != manifest_.attempt()) {
      return absl::AbortedError(
          absl::StrCat("the part of ", part.server(), " is of cut ", part.cut(), ", attempt ",
                       part.attempt(), "; asked for were ", cut_, " and ", manifest_.attempt()));
    }
    if (IsSync(job_.spec()) && part.step() != first.step()) {
      return absl::AbortedError(absl::StrCat("the parts are not of one step: ", first.step(),
                                             " on ", first.server(), ", ", part.step(), " on ",
                                             part.server()));
    }
    manifest_.set_step(std::max(manifest_.step(), part.step()));
    manifest_.set_examples(std::max(manifest_.examples(), part.examples()));
    for (int i = 0; i < part.group_steps_size(); ++i) {
      if (i == manifest_.group_steps_size()) manifest_.add_group_steps(0);
      manifest_.set_group_steps(i, std::max(manifest_.group_steps(i), part.group_steps(i)));
    }
  }
  return absl::OkStatus();
}

void CheckpointSaver::Commit(Turn& turn) {
  phase_ = Phase::kCommitting;
  manifest_.set_created_unix_ms(static_cast<uint64_t>(absl::ToUnixMillis(turn.wall_now())));
  waiters_.FillMetrics(manifest_);
  turn.Later([catalog = job_.context().checkpoints, manifest = manifest_,
              done = Reenter<absl::Status>(
                  [](CheckpointSaver& saver, Turn& later, const absl::Status& status) {
                    saver.OnCommitted(status, later);
                  })]() mutable { catalog->Commit(std::move(manifest), std::move(done)); });
}

void CheckpointSaver::OnCommitted(const absl::Status& status, Turn& turn) {
  if (!status.ok()) {
    Fail(status, turn);
    return;
  }
  LogLater(turn, spdlog::level::info, "checkpoint committed job={} id={} step={} examples={}",
           job_.name(), manifest_.id(), manifest_.step(), manifest_.examples());
  v1::SaveCheckpointReply reply;
  *reply.mutable_manifest() = manifest_;
  waiters_.Answer(reply, turn);
  waiters_.BeginNext();
  phase_ = Phase::kIdle;
  failures_ = 0;
  retry_at_ = absl::InfinitePast();
  Rebase(turn.now(), /*saved=*/!news_since_cut_);
  NoteMembers();
  const uint32_t keep = job_.spec().checkpoint().keep();
  DropOldCheckpoints(job_.context(), job_.name(), keep == 0 ? kDefaultKeep : keep, turn);
  if (!waiters_.empty()) Start(turn);
}

void CheckpointSaver::Fail(const absl::Status& why, Turn& turn) {
  LogLater(turn, spdlog::level::warn, "checkpoint dropped job={} id={}: {}", job_.name(),
           manifest_.id(), std::string(why.message()));
  if (job_.ranges() != nullptr) job_.ranges()->Thaw();
  if (!manifest_.id().empty()) DropUnfinished(job_.context(), manifest_, turn);
  phase_ = Phase::kIdle;
  waiting_for_change_ = false;
  unmarked_.clear();
  retry_at_ = turn.now() + DelayAfter(++failures_, kFirstRetry, kLongestRetry);
  if (failures_ >= kPatience || absl::IsFailedPrecondition(why)) waiters_.Answer(why, turn);
  waiters_.BeginNext();
}

void CheckpointSaver::OnMemberGone(Turn& turn) {
  has_news_ = news_since_cut_ = true;
  // Marks of the dead cannot come, and what it had pushed after them is unknown.
  if (phase_ == Phase::kCutting && !IsSync(job_.spec())) {
    Fail(absl::AbortedError("a worker has gone while the cut was marked"), turn);
  }
}

void CheckpointSaver::Interrupt(const absl::Status& why, Turn& turn) {
  if (phase_ != Phase::kIdle) Fail(why, turn);
  failures_ = 0;
  retry_at_ = absl::InfinitePast();
}

void CheckpointSaver::End(const absl::Status& why, Turn& turn) {
  if (phase_ != Phase::kIdle) Fail(why, turn);
  waiters_.Answer(why, turn);
}

}  // namespace weir
