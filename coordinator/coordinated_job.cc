// SPDX-License-Identifier: Apache-2.0
#include "coordinator/coordinated_job.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/placement.h"
#include "coordinator/sync_groups.h"
#include "coordinator/turn_log.h"
#include "rpc/errors.h"
#include "rpc/job_length.h"
#include "rpc/job_state.h"
#include "rpc/regime.h"

namespace weir {
namespace {

Roster::Options RosterOptions(const JobContext& context, const v1::JobSpec& spec) {
  return {.ranks = spec.workers(), .lease = context.lease, .heartbeat = context.heartbeat};
}

std::string KeyOf(absl::string_view kind, uint64_t run_id) {
  return absl::StrCat(kind, "/", absl::Hex(run_id, absl::kZeroPad16));
}

uint64_t UnixMillis(absl::Time time) {
  return static_cast<uint64_t>(absl::ToUnixMillis(time));
}

absl::optional<RangeDispenser> MakeRanges(const v1::JobSpec& spec) {
  if (IsSync(spec) || !DividesData(spec)) return {};
  return RangeDispenser({.epoch_examples = spec.train_examples(),
                         .batch = StepBatch(spec),
                         .total_examples = TotalExamples(spec),
                         .shared = HasSyncGroups(spec)});
}

// Of the run: the newest intact one that it saved, else that which it goes on from. Empty: none.
std::string LatestCheckpoint(const CheckpointCatalog& checkpoints, const v1::JobView& view) {
  std::string source;
  for (const absl::StatusOr<SharedManifest>& manifest : checkpoints.List(view.name())) {
    if (!manifest.ok()) continue;
    if ((*manifest)->run_id() == view.run_id()) return (*manifest)->id();
    if ((*manifest)->id() == view.resume().checkpoint_id()) source = (*manifest)->id();
  }
  return source;
}

}  // namespace

CoordinatedJob::CoordinatedJob(const JobContext& context, const v1::JobSpec& spec, uint64_t run_id,
                               uint64_t created_unix_ms)
    : context_(context),
      roster_(RosterOptions(context, spec)),
      ranges_(MakeRanges(spec)),
      saver_(*this),
      created_unix_ms_(created_unix_ms) {
  view_.set_run_id(run_id);
  view_.set_name(spec.name());
  view_.set_attempt(1);
  *view_.mutable_spec() = spec;
  Wait("waits for workers");
}

CoordinatedJob::CoordinatedJob(const JobContext& context, const v1::JobRecord& record,
                               const v1::Declaration& declaration,
                               const absl::optional<v1::RangesRecord>& ranges, Turn& turn)
    : context_(context),
      view_(record.view()),
      roster_(RosterOptions(context, record.view().spec())),
      ranges_(MakeRanges(record.view().spec())),
      saver_(*this),
      created_unix_ms_(record.created_unix_ms()),
      finished_unix_ms_(record.finished_unix_ms()),
      any_finished_(record.any_finished()),
      last_change_(record.last_change()),
      last_cut_(record.last_cut()),
      next_sync_group_(record.next_sync_group()) {
  *view_.mutable_declaration() = declaration;
  roster_.Load(record, turn.now());
  barriers_.Load(record);
  torn_pushes_.Load(record);
  if (ranges_ && ranges) ranges_->Load(*ranges);
  saver_.Rebase(turn.now(), /*saved=*/false);
  if (!live()) return;
  // A join that was under way may be in force at a server: what we say now is newer, and without
  // the newcomers.
  last_version_ = view_.version() + 1;
  const bool changing = !roster_.Joining().empty() || UnsettledStop(view_);
  last_generation_ = view_.generation() + (changing ? 2 : 0);
  ChangeView().set_generation(last_generation_);
  if (roster_.empty()) orphaned_at_ = turn.now();
  const absl::StatusOr<SharedManifest> source =
      context_.checkpoints->Find(name(), view_.resume().checkpoint_id());
  if (source.ok()) source_ = *source;
  if (view_.shard_map().version() > 0) {
    const absl::StatusOr<Placement> placed =
        PlaceJob(spec(), declaration,
                 {view_.shard_map().servers().begin(), view_.shard_map().servers().end()},
                 {.version = view_.shard_map().version(),
                  .shard_bytes = view_.shard_map().shard_bytes(),
                  .chunk_bytes = view_.shard_map().chunk_bytes()});
    for (size_t i = 0; placed.ok() && i < placed->bytes.size(); ++i) {
      bytes_on_[placed->map.servers(static_cast<int>(i)).name()] = placed->bytes[i];
    }
  }
  restore_due_ = view_.state() == v1::JOB_STATE_RESTORING;
}

bool CoordinatedJob::live() const {
  return !HasEnded(view_.state());
}

v1::JobView& CoordinatedJob::ChangeView() {
  view_changed_ = true;
  return view_;
}

uint64_t CoordinatedJob::NextCut() {
  Keep();
  return ++last_cut_;
}

SharedWatchEvent CoordinatedJob::Event() const {
  auto event = std::make_shared<v1::WatchEvent>();
  event->set_term(context_.term);
  *event->mutable_view() = view_;
  return event;
}

v1::JobRecord CoordinatedJob::Record() const {
  v1::JobRecord record;
  *record.mutable_view() = view_;
  record.mutable_view()->clear_declaration();
  roster_.Save(record);
  barriers_.Save(record);
  torn_pushes_.Save(record);
  record.set_created_unix_ms(created_unix_ms_);
  record.set_finished_unix_ms(finished_unix_ms_);
  record.set_any_finished(any_finished_);
  record.set_last_change(last_change_);
  record.set_last_cut(last_cut_);
  record.set_next_sync_group(next_sync_group_);
  return record;
}

void CoordinatedJob::Finish(Turn& turn) {
  if (view_changed_) {
    last_version_ = std::max(last_version_, view_.version()) + 1;
    view_.set_version(last_version_);
    view_.set_term(context_.term);
    record_changed_ = true;
    turn.Later([hub = context_.hub, run = run_id(), event = Event()] { hub->Publish(run, event); });
  }
  if (std::exchange(restore_due_, false)) restoration_.Start(turn);
  if (record_changed_) turn.Put(KeyOf("job", run_id()), Record());
  if (declaration_changed_) turn.Put(KeyOf("declaration", run_id()), view_.declaration());
  if (ranges_changed_ && ranges_ && live()) turn.Put(KeyOf("ranges", run_id()), ranges_->Save());
  view_changed_ = record_changed_ = declaration_changed_ = ranges_changed_ = false;
}

absl::Status CoordinatedJob::Heartbeat(const v1::HeartbeatRequest& request, const Turn& turn) {
  // Of a worker that has not heard of this attempt yet, the step is of one that is undone.
  const uint64_t step = request.attempt() == view_.attempt() ? request.step() : 0;
  return roster_.Heartbeat(WorkerId{request.incarnation()}, step, turn.now());
}

absl::Status CoordinatedJob::CheckWorkersLive(WorkerId newcomer, const Turn& turn) {
  return roster_.CheckAllLive(newcomer, turn.now());
}

void CoordinatedJob::NoteDeparture(const v1::Departure& departure) {
  if (torn_pushes_.Add(departure)) Keep();
}

absl::Status CoordinatedJob::CheckAttempt(uint64_t attempt) const {
  if (!live()) return absl::FailedPreconditionError(EndOf(view_));
  if (attempt < view_.attempt()) return StaleAttempt(attempt, view_.attempt());
  if (attempt > view_.attempt()) return ViewNotYetKnown("attempt", view_.attempt(), attempt);
  return absl::OkStatus();
}

void CoordinatedJob::End(v1::JobState state, const std::string& message, Turn& turn) {
  LogLater(turn, spdlog::level::info, "job ends job={} run={:016x} state={} message=\"{}\"", name(),
           run_id(), v1::JobState_Name(state), message);
  ChangeView().set_state(state);
  view_.set_message(message);
  finished_unix_ms_ = UnixMillis(turn.wall_now());
  if (change_ != nullptr) change_->Abandon(turn);
  change_.reset();
  const absl::Status why = absl::FailedPreconditionError(EndOf(view_));
  barriers_.Clear(why, turn);
  saver_.End(why, turn);
  bytes_on_.clear();
  source_.reset();
  turn.Erase(KeyOf("ranges", run_id()));
}

void CoordinatedJob::Shutdown(const absl::Status& why, Turn& turn) {
  barriers_.Clear(why, turn);
  saver_.End(why, turn);
}

uint64_t CoordinatedJob::BytesOn(const std::string& server) const {
  const auto found = bytes_on_.find(server);
  return found == bytes_on_.end() ? 0 : found->second;
}

// In `sync` the examples follow from the steps: a death leaves its share of one out, no more.
uint64_t CoordinatedJob::ExamplesDone() const {
  if (IsSync(spec()) && DividesData(spec())) return ExamplesAfterSteps(StepsDone(), spec());
  return view_.resume().examples() + roster_.examples();
}

uint64_t CoordinatedJob::StepsDone() const {
  if (IsSync(spec()) || !DividesData(spec())) return roster_.highest_step();
  return view_.resume().step() + StepsOver(ExamplesDone(), spec()) -
         StepsOver(view_.resume().examples(), spec());
}

RangeHolder CoordinatedJob::HolderOf(WorkerId worker) const {
  return HasSyncGroups(spec()) ? RangeHolder{SyncGroupOf(view_, worker)}
                               : RangeHolder{static_cast<uint64_t>(worker)};
}

// A worker's step is the one after its newest push, so who is further than others allow waits.
void CoordinatedJob::FillWaits(const Roster::Worker& member, v1::WorkerStatus& status) const {
  const v1::RegimeSpec& regime = spec().regime();
  if (view_.state() != v1::JOB_STATE_RUNNING || regime.kind() == v1::REGIME_ASYNC) return;
  uint32_t as_far = 0;
  for (const Roster::Worker* other : roster_.Members()) {
    if (SyncGroupOf(view_, other->id) != status.sync_group()) continue;
    if (Roster::StepOf(*other) + regime.bounded_staleness() < Roster::StepOf(member)) {
      status.add_waits_for(other->rank);
    } else {
      ++as_far;
    }
  }
  // Of those behind, as many as there are backup workers are not waited for.
  if (regime.backup_workers() > 0 && as_far + regime.backup_workers() >= spec().workers()) {
    status.clear_waits_for();
  }
}

v1::JobStatus CoordinatedJob::Status(absl::Time now) const {
  v1::JobStatus status;
  *status.mutable_view() = view_;
  status.mutable_view()->clear_declaration();
  for (const Roster::Worker* member : roster_.Members()) {
    v1::WorkerStatus& worker = *status.add_workers();
    worker.set_rank(member->rank);
    worker.set_worker(static_cast<uint64_t>(member->id));
    worker.set_host(member->host);
    *worker.mutable_progress() = member->progress;
    worker.mutable_progress()->set_step(std::max(member->step, member->progress.step()));
    worker.set_silent_ms(absl::ToInt64Milliseconds(now - member->last_heard));
    worker.set_sync_group(SyncGroupOf(view_, member->id));
    FillWaits(*member, worker);
  }
  uint64_t elements = 0;
  for (const v1::Variable& variable : view_.declaration().variables()) {
    if (variable.group() == 0) continue;
    uint64_t count = 1;
    for (const uint64_t size : variable.shape()) count *= size;
    elements += count;
  }
  status.set_parameter_elements(elements);
  status.set_torn_pushes(torn_pushes_.count());
  status.set_late_pushes(roster_.late_pushes());
  status.set_step(StepsDone());
  status.set_examples(ExamplesDone());
  status.set_created_unix_ms(created_unix_ms_);
  status.set_finished_unix_ms(finished_unix_ms_);
  status.set_latest_checkpoint(LatestCheckpoint(*context_.checkpoints, view_));
  return status;
}

}  // namespace weir
