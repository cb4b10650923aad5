// SPDX-License-Identifier: Apache-2.0
#include "cli/queries.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/local_supervisor.h"
#include "cli/past_run.h"
#include "cli/reports.h"
#include "common/status_macros.h"
#include "rpc/coordinator_client.h"
#include "weir/v1/coordinator.pb.h"

namespace weir {
namespace {

// Where a coordinator is asked of which nobody has said that it is there.
template <typename Request, typename Reply>
absl::StatusOr<Reply> AskAtDefault(const Query& query,
                                   CoordinatorClient::Method<Request, Reply> method,
                                   const Request& request) {
  WEIR_ASSIGN_OR_RETURN(
      const std::unique_ptr<CoordinatorClient> client,
      CoordinatorClient::Create({.address = query.default_coordinator, .clock = query.clock}));
  absl::StatusOr<Reply> reply =
      client->CallOnce(method, request, query.clock->Now() + absl::Seconds(query.timeout_seconds));
  if (!absl::IsUnavailable(reply.status())) return reply;
  return absl::UnavailableError(absl::StrCat(
      "no cluster is up here, and no coordinator listens at ", query.default_coordinator,
      ": `weir local up` starts a cluster, --coordinator HOST:PORT names one, "
      "--run-dir runs/NAME that of a run"));
}

// One call on a connection of its own.
template <typename Request, typename Reply>
absl::StatusOr<Reply> AskAt(const std::string& address, const Query& query,
                            CoordinatorClient::Method<Request, Reply> method,
                            const Request& request) {
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<CoordinatorClient> client,
                        CoordinatorClient::Create({.address = address, .clock = query.clock}));
  return client->Call(method, request, query.clock->Now() + absl::Seconds(query.timeout_seconds));
}

template <typename Request, typename Reply>
absl::StatusOr<Reply> Ask(const Query& query, CoordinatorClient::Method<Request, Reply> method,
                          const Request& request) {
  if (!query.coordinator.empty()) return AskAt(query.coordinator, query, method, request);
  if (query.run_folder.empty()) {
    const auto local = ReadLocalState(query.state_folder);
    return local.ok() ? AskAt(local->coordinator, query, method, request)
                      : AskAtDefault(query, method, request);
  }
  const auto running = ReadLocalState(ClusterFolder(query.run_folder));
  if (running.ok()) return AskAt(running->coordinator, query, method, request);
  if (absl::IsFailedPrecondition(running.status())) return running.status();
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<PastRun> past,
                        PastRun::Open(query.program_folder, query.run_folder, *query.clock));
  return AskAt(past->coordinator(), query, method, request);
}

template <typename Reply, typename Report>
absl::StatusOr<std::string> Show(const Query& query, const Reply& reply, Report report) {
  if (query.json) return ToJson(reply);
  return report(reply);
}

}  // namespace

absl::StatusOr<std::string> QueryStatus(const Query& query) {
  WEIR_ASSIGN_OR_RETURN(const v1::StatusReply reply,
                        Ask(query, &CoordinatorStub::Status, v1::StatusRequest()));
  return Show(query, reply, StatusReport);
}

absl::StatusOr<std::string> QueryJobs(const Query& query, const std::string& job) {
  if (job.empty()) {
    WEIR_ASSIGN_OR_RETURN(const v1::ListJobsReply reply,
                          Ask(query, &CoordinatorStub::ListJobs, v1::ListJobsRequest()));
    return Show(query, reply, JobsReport);
  }
  v1::ShowJobRequest request;
  request.set_job(job);
  WEIR_ASSIGN_OR_RETURN(const v1::ShowJobReply reply,
                        Ask(query, &CoordinatorStub::ShowJob, request));
  return Show(query, reply.job(), JobReport);
}

absl::StatusOr<std::vector<std::string>> JobsWithWorkers(const Query& query) {
  WEIR_ASSIGN_OR_RETURN(const v1::ListJobsReply reply,
                        Ask(query, &CoordinatorStub::ListJobs, v1::ListJobsRequest()));
  std::vector<std::string> names;
  for (const v1::JobStatus& job : reply.jobs()) {
    if (IsLive(job.view().state()) && job.view().members_size() > 0)
      names.push_back(job.view().name());
  }
  return names;
}

absl::StatusOr<std::string> QueryCheckpoints(const Query& query, const std::string& job) {
  v1::ListCheckpointsRequest request;
  request.set_job(job);
  WEIR_ASSIGN_OR_RETURN(const v1::ListCheckpointsReply reply,
                        Ask(query, &CoordinatorStub::ListCheckpoints, request));
  return Show(query, reply, CheckpointsReport);
}

absl::StatusOr<std::string> StopJob(const Query& query, const std::string& job) {
  v1::ShowJobRequest show;
  show.set_job(job);
  WEIR_ASSIGN_OR_RETURN(const v1::ShowJobReply before, Ask(query, &CoordinatorStub::ShowJob, show));
  v1::StopJobRequest request;
  request.set_job(job);
  request.set_reason("`weir stop`");
  WEIR_ASSIGN_OR_RETURN(const v1::StopJobReply reply,
                        Ask(query, &CoordinatorStub::StopJob, request));
  if (query.json) return ToJson(reply);
  WEIR_ASSIGN_OR_RETURN(const v1::ShowJobReply after, Ask(query, &CoordinatorStub::ShowJob, show));
  return StopReport(before.job(), after.job());
}

}  // namespace weir
