// SPDX-License-Identifier: Apache-2.0
// The calls of people and tools, and Watch.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/coordinator.h"
#include "coordinator/turns.h"

namespace weir {
namespace {

absl::Status NoSuchJob(const std::string& name) {
  return absl::NotFoundError(absl::StrCat("no job '", name, "'; `weir jobs` lists them"));
}

}  // namespace

absl::StatusOr<WatchId> Coordinator::Watch(const v1::WatchRequest& request,
                                           WatchCallback callback) {
  absl::StatusOr<WatchId> watch =
      absl::NotFoundError(absl::StrCat("no run ", absl::Hex(request.run_id(), absl::kZeroPad16)));
  InTurn([&](Turn& turn) {
    AssertInTurn();
    if (request.run_id() != 0 && jobs_.count(request.run_id()) == 0) return;
    watch = hub_->Subscribe(request.run_id(), std::move(callback));
    std::vector<SharedWatchEvent> events;
    if (request.run_id() == 0) {
      auto snapshot = std::make_shared<v1::WatchEvent>();
      snapshot->set_term(term_);
      snapshot->set_snapshot(true);
      for (const auto& [run, job] : jobs_) {
        if (job->live()) snapshot->add_live_runs(run);
      }
      events.push_back(std::move(snapshot));
    }
    for (const auto& [run, job] : jobs_) {
      if (request.run_id() == 0 ? job->live() : run == request.run_id()) {
        events.push_back(job->Event());
      }
    }
    turn.Later([hub = hub_, id = *watch, events = std::move(events)] {
      for (const SharedWatchEvent& event : events) hub->Send(id, event);
    });
  });
  return watch;
}

void Coordinator::Unwatch(WatchId watch) {
  hub_->Unsubscribe(watch);
}

void Coordinator::ListCheckpoints(const v1::ListCheckpointsRequest& request,
                                  Done<v1::ListCheckpointsReply> done) {
  std::vector<v1::Manifest> manifests;
  const std::vector<std::string> jobs = request.job().empty()
                                            ? context_->checkpoints->Jobs()
                                            : std::vector<std::string>{request.job()};
  for (const std::string& job : jobs) {
    for (const auto& manifest : context_->checkpoints->List(job)) {
      if (!manifest.ok()) continue;
      manifests.push_back(**manifest);
      manifests.back().clear_declaration();
      manifests.back().mutable_shard_map()->clear_server_of_shard();
    }
  }
  std::stable_sort(manifests.begin(), manifests.end(),
                   [](const v1::Manifest& a, const v1::Manifest& b) {
                     return a.created_unix_ms() > b.created_unix_ms();
                   });
  v1::ListCheckpointsReply reply;
  for (v1::Manifest& manifest : manifests) *reply.add_manifests() = std::move(manifest);
  std::move(done)(std::move(reply));
}

void Coordinator::ListJobs(const v1::ListJobsRequest&, Done<v1::ListJobsReply> done) {
  InTurn([&](Turn& turn) {
    AssertInTurn();
    v1::ListJobsReply reply;
    for (const CoordinatedJob* job : NewestFirst()) *reply.add_jobs() = job->Status(turn.now());
    AnswerLater<v1::ListJobsReply>(turn, std::move(done), std::move(reply));
  });
}

void Coordinator::ShowJob(const v1::ShowJobRequest& request, Done<v1::ShowJobReply> done) {
  InTurn([&](Turn& turn) {
    AssertInTurn();
    const CoordinatedJob* job = Newest(request.job());
    if (job == nullptr) {
      AnswerLater<v1::ShowJobReply>(turn, std::move(done), NoSuchJob(request.job()));
      return;
    }
    v1::ShowJobReply reply;
    *reply.mutable_job() = job->Status(turn.now());
    AnswerLater<v1::ShowJobReply>(turn, std::move(done), std::move(reply));
  });
}

void Coordinator::StopJob(const v1::StopJobRequest& request, Done<v1::StopJobReply> done) {
  InTurn([&](Turn& turn) {
    AssertInTurn();
    CoordinatedJob* live = Live(request.job());
    if (live == nullptr && Newest(request.job()) == nullptr) {
      AnswerLater<v1::StopJobReply>(turn, std::move(done), NoSuchJob(request.job()));
      return;
    }
    if (live != nullptr) live->Stop(request.reason(), turn);
    AnswerLater<v1::StopJobReply>(turn, std::move(done), v1::StopJobReply());
  });
}

void Coordinator::Status(const v1::StatusRequest&, Done<v1::StatusReply> done) {
  InTurn([&](Turn& turn) {
    AssertInTurn();
    v1::StatusReply reply;
    reply.set_term(term_);
    reply.set_build(options_.build);
    for (const auto& [name, server] : servers_.all()) {
      v1::ServerStatus& status = *reply.add_servers();
      *status.mutable_server() = server.record.server();
      status.set_live(server.record.live());
      status.set_silent_ms(absl::ToInt64Milliseconds(turn.now() - server.last_heard));
      status.set_memory_limit_bytes(server.record.memory_limit_bytes());
      status.set_memory_bytes(server.memory_bytes);
    }
    for (const CoordinatedJob* job : NewestFirst()) *reply.add_jobs() = job->Status(turn.now());
    AnswerLater<v1::StatusReply>(turn, std::move(done), std::move(reply));
  });
}

}  // namespace weir
