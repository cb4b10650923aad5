// SPDX-License-Identifier: Apache-2.0
#include "server/parameter_server.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "rpc/errors.h"
#include "rpc/job_state.h"
#include "rpc/protocol.h"
#include "server/parameter_store.h"

namespace weir {
namespace {

constexpr size_t kGoneRuns = 1024;  // remembered

}  // namespace

ParameterServer::ParameterServer(Options options)
    : options_(std::move(options)),
      pool_({.clock = options_.clock,
             .executor = options_.executor,
             .has_memory = options_.has_memory}),
      budget_(std::make_shared<MemoryBudget>(options_.memory_limit_bytes)) {}

ParameterServer::~ParameterServer() {
  Stop();
}

void ParameterServer::Stop() {
  std::vector<std::shared_ptr<ParameterStore>> stores;
  {
    MutexLock lock(mutex_);
    draining_ = true;
    for (auto& [run, job] : jobs_) stores.push_back(std::move(job.store));
    jobs_.clear();
  }
  for (const std::shared_ptr<ParameterStore>& store : stores) {
    if (store != nullptr) store->End(absl::UnavailableError("the server is shutting down"));
  }
}

absl::Status ParameterServer::CheckTerm(uint64_t term) {
  MutexLock lock(mutex_);
  if (term < term_) {
    return absl::AbortedError(absl::StrCat("the coordinator's term ", term,
                                           " is over; this server has heard of term ", term_));
  }
  term_ = term;
  return absl::OkStatus();
}

absl::Status ParameterServer::ApplyView(const v1::JobView& view) {
  WEIR_RETURN_IF_ERROR(CheckTerm(view.term()));
  if (HasEnded(view.state())) {
    EndJob(view);
    return absl::OkStatus();
  }
  const bool placed =
      !view.declaration().variables().empty() && !view.shard_map().servers().empty();
  std::shared_ptr<ParameterStore> store;
  bool replace = false;
  std::shared_ptr<ParameterStore> rolled_back;  // and its shards are not placed anew yet
  {
    MutexLock lock(mutex_);
    WaitUntilMade(view.run_id());
    if (std::find(gone_.begin(), gone_.end(), view.run_id()) != gone_.end())
      return absl::OkStatus();
    Job& job = jobs_[view.run_id()];
    if (job.version >= view.version() && job.version != 0) {
      return placed ? job.no_store : absl::OkStatus();
    }
    job.version = view.version();
    if (!placed && job.store != nullptr && job.store->attempt() < view.attempt()) {
      rolled_back = std::exchange(job.store, nullptr);
    }
    if (job.store == nullptr && !placed) {
      job.no_store = absl::UnavailableError(
          absl::StrCat("job '", view.name(), "' has no variables on the servers yet"));
    }
    store = job.store;
    job.making = placed && !(store != nullptr && store->attempt() == view.attempt() &&
                             store->shard_map_version() == view.shard_map().version());
    replace = job.making;
  }
  if (rolled_back != nullptr) {
    rolled_back->End(StaleAttempt(rolled_back->attempt(), view.attempt()));
  }
  if (replace) return ReplaceStore(view);
  if (placed) store->ApplyView(view);
  return absl::OkStatus();
}

// Views come over the watch and with a restore at once: whoever comes second finds the store made.
void ParameterServer::WaitUntilMade(uint64_t run_id) {
  while (true) {
    const auto found = jobs_.find(run_id);
    if (found == jobs_.end() || !found->second.making) return;
    made_.Wait(mutex_);
  }
}

absl::Status ParameterServer::ReplaceStore(const v1::JobView& view) {
  std::shared_ptr<ParameterStore> old;
  bool draining = false;
  {
    MutexLock lock(mutex_);
    const auto found = jobs_.find(view.run_id());
    if (found != jobs_.end()) old = std::exchange(found->second.store, nullptr);
    draining = draining_;
  }
  // First the old one's memory is given back, then the new one's is asked for.
  if (old != nullptr) old->End(StaleAttempt(old->attempt(), view.attempt()));
  old.reset();
  absl::StatusOr<std::shared_ptr<ParameterStore>> made =
      draining ? absl::UnavailableError(
                     absl::StrCat("server ", options_.name, " is shutting down; it takes no jobs"))
               : ParameterStore::Create({.server_name = options_.name,
                                         .server_incarnation = options_.incarnation,
                                         .credit_bytes = options_.credit_bytes,
                                         .payload_bytes = options_.payload_bytes,
                                         .clock = options_.clock,
                                         .executor = options_.executor,
                                         .pool = &pool_,
                                         .departures = &departures_,
                                         .budget = budget_},
                                        view);
  MutexLock lock(mutex_);
  made_.NotifyAll();
  const auto found = jobs_.find(view.run_id());
  if (found == jobs_.end()) return absl::OkStatus();  // the job has ended meanwhile
  found->second.making = false;
  found->second.no_store = made.status();
  if (made.ok()) found->second.store = *std::move(made);
  return found->second.no_store;
}

void ParameterServer::Forget(uint64_t run_id, absl::Status why) {
  std::shared_ptr<ParameterStore> store;
  {
    MutexLock lock(mutex_);
    const auto found = jobs_.find(run_id);
    if (found != jobs_.end()) {
      store = std::move(found->second.store);
      jobs_.erase(found);
    }
    if (std::find(gone_.begin(), gone_.end(), run_id) == gone_.end()) gone_.push_back(run_id);
    if (gone_.size() > kGoneRuns) gone_.pop_front();
  }
  if (store != nullptr) store->End(why);
}

void ParameterServer::EndJob(const v1::JobView& view) {
  // The last members may leave with this view.
  const absl::StatusOr<std::shared_ptr<ParameterStore>> store = Store(view.run_id());
  if (store.ok() && (*store)->attempt() == view.attempt()) (*store)->ApplyView(view);
  Forget(view.run_id(), absl::FailedPreconditionError(EndOf(view)));
}

void ParameterServer::KeepOnly(absl::Span<const uint64_t> live_runs) {
  std::vector<uint64_t> dead;
  {
    MutexLock lock(mutex_);
    for (const auto& [run, job] : jobs_) {
      if (std::find(live_runs.begin(), live_runs.end(), run) == live_runs.end()) {
        dead.push_back(run);
      }
    }
  }
  for (const uint64_t run : dead) {
    Forget(run, absl::NotFoundError("the coordinator does not know the run any more"));
  }
}

absl::StatusOr<std::shared_ptr<ParameterStore>> ParameterServer::Store(uint64_t run_id) const {
  MutexLock lock(mutex_);
  const auto found = jobs_.find(run_id);
  if (found != jobs_.end()) {
    if (found->second.store != nullptr) return found->second.store;
    return found->second.no_store.ok() ? absl::UnavailableError("the job's store is being made")
                                       : found->second.no_store;
  }
  if (std::find(gone_.begin(), gone_.end(), run_id) != gone_.end()) {
    return absl::NotFoundError(absl::StrCat("run ", absl::Hex(run_id, absl::kZeroPad16),
                                            " has ended, or the coordinator has dropped it"));
  }
  return ViewNotYetKnown(absl::StrCat("view of run ", absl::Hex(run_id, absl::kZeroPad16)), 0, 1);
}

absl::StatusOr<std::shared_ptr<ParameterStore>> ParameterServer::Find(
    const v1::RequestContext& context) const {
  WEIR_ASSIGN_OR_RETURN(std::shared_ptr<ParameterStore> store, Store(context.run_id()));
  if (context.server_incarnation() != 0 && context.server_incarnation() != options_.incarnation) {
    return StaleIncarnation(options_.name);
  }
  return store;
}

void ParameterServer::Hello(const v1::HelloRequest& request, absl::Time /*deadline*/,
                            HelloDone done) {
  if (request.protocol_min() > kProtocol || request.protocol_max() < kProtocol) {
    return std::move(done)(absl::FailedPreconditionError(absl::StrCat(
        "'", request.build(), "' speaks protocol ", request.protocol_min(), " to ",
        request.protocol_max(), ", server ", options_.name, " (", kBuild, ") ", kProtocol)));
  }
  v1::HelloReply reply;
  reply.set_protocol(kProtocol);
  reply.set_build(kBuild);
  reply.set_server_incarnation(options_.incarnation);
  reply.set_credit_bytes(options_.credit_bytes);
  reply.set_payload_bytes(options_.payload_bytes);
  std::move(done)(std::move(reply));
}

void ParameterServer::Pull(const v1::PullRequest& request, absl::Time deadline, PullDone done) {
  const auto store = Find(request.context());
  if (!store.ok()) return std::move(done)(store.status());
  (*store)->Pull(request, deadline, std::move(done));
}

void ParameterServer::Push(const v1::PushRequest& request, Payload payload, absl::Time deadline,
                           PushDone done) {
  const auto store = Find(request.context());
  if (!store.ok()) return std::move(done)(store.status());
  (*store)->Push(request, std::move(payload), deadline, {.push = std::move(done), .pull = nullptr});
}

void ParameterServer::PushPull(const v1::PushRequest& request, Payload payload, absl::Time deadline,
                               PullDone done) {
  const auto store = Find(request.context());
  if (!store.ok()) return std::move(done)(store.status());
  (*store)->Push(request, std::move(payload), deadline, {.push = nullptr, .pull = std::move(done)});
}

void ParameterServer::Assign(const v1::AssignRequest& request, Payload payload,
                             absl::Time /*deadline*/, AssignDone done) {
  const auto store = Find(request.context());
  const absl::Status status = store.ok() ? (*store)->Assign(request, payload) : store.status();
  if (!status.ok()) return std::move(done)(status);
  std::move(done)(v1::AssignReply());
}

void ParameterServer::Reduce(const v1::ReduceRequest& request, Payload payload, absl::Time deadline,
                             ReduceDone done) {
  const auto store = Find(request.context());
  if (!store.ok()) return std::move(done)(store.status());
  (*store)->Reduce(request, std::move(payload), deadline, std::move(done));
}

template <typename Request>
absl::StatusOr<std::shared_ptr<ParameterStore>> ParameterServer::FindForChange(
    const Request& request) {
  WEIR_RETURN_IF_ERROR(CheckTerm(request.term()));
  WEIR_ASSIGN_OR_RETURN(std::shared_ptr<ParameterStore> store, Store(request.run_id()));
  const uint64_t attempt = request.attempt();
  if (attempt < store->attempt()) return StaleAttempt(attempt, store->attempt());
  if (attempt > store->attempt()) return ViewNotYetKnown("attempt", store->attempt(), attempt);
  return store;
}

absl::StatusOr<v1::PrepareStepReply> ParameterServer::PrepareStep(
    const v1::PrepareStepRequest& request) {
  WEIR_ASSIGN_OR_RETURN(const auto store, FindForChange(request));
  return store->PrepareStep(request);
}

absl::Status ParameterServer::CommitStep(const v1::CommitStepRequest& request) {
  WEIR_ASSIGN_OR_RETURN(const auto store, FindForChange(request));
  return store->CommitStep(request);
}

absl::Status ParameterServer::AbortStep(const v1::AbortStepRequest& request) {
  WEIR_ASSIGN_OR_RETURN(const auto store, FindForChange(request));
  return store->AbortStep(request);
}

uint64_t ParameterServer::memory_bytes() const {
  return pool_.mapped_bytes();
}

v1::ServerReport ParameterServer::Report() const {
  v1::ServerReport report;
  report.set_memory_bytes(memory_bytes());
  for (v1::Departure& departure : departures_.Settled()) {
    *report.add_departures() = std::move(departure);
  }
  return report;
}

void ParameterServer::Reported(const v1::ServerReport& report) {
  departures_.Forget(report.departures());
}

void ParameterServer::Drain(absl::AnyInvocable<void() &&> drained) {
  std::vector<std::shared_ptr<ParameterStore>> stores;
  {
    MutexLock lock(mutex_);
    draining_ = true;
    for (const auto& [run, job] : jobs_) {
      if (job.store != nullptr) stores.push_back(job.store);
    }
  }
  if (stores.empty()) return std::move(drained)();
  struct Countdown {
    std::atomic<size_t> left;
    Task done;
  };
  // Shared by the stores' callbacks, of which the last one is not known.
  auto countdown = std::make_shared<Countdown>();
  countdown->left = stores.size();
  countdown->done = std::move(drained);
  for (const std::shared_ptr<ParameterStore>& store : stores) {
    store->WhenIdle([countdown] {
      if (countdown->left.fetch_sub(1) == 1) std::move(countdown->done)();
    });
  }
}

}  // namespace weir
