// SPDX-License-Identifier: Apache-2.0
#include "cli/reports.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "cli/human.h"
#include "cli/job_progress.h"
#include "cli/table.h"
#include "rpc/job_state.h"
#include "rpc/regime.h"

namespace weir {
namespace {

using Align = Table::Align;

// "JOB_STATE_RUNNING" -> "running".
std::string WithoutPrefix(absl::string_view name, absl::string_view prefix) {
  return absl::AsciiStrToLower(absl::StripPrefix(name, prefix));
}

std::string Silence(uint64_t silent_ms) {
  return absl::StrFormat("%.1f s", static_cast<double>(silent_ms) / 1000);
}

std::string Decimal(double value) {
  return absl::StrFormat("%.4g", value);
}

uint64_t Whole(double rate) {
  return static_cast<uint64_t>(std::llround(std::max(0.0, rate)));
}

std::string WaitsFor(const v1::WorkerStatus& worker) {
  if (worker.waits_for().empty()) return "-";
  return absl::StrCat("rank ", absl::StrJoin(worker.waits_for(), ", "));
}

Table JobsTable() {
  return Table({{"JOB"},
                {"STATE"},
                {"REGIME"},
                {"WORKERS", Align::kRight},
                {"STEP", Align::kRight},
                {"EXAMPLES", Align::kRight},
                {"LOSS", Align::kRight},
                {"SAMPLES/S", Align::kRight},
                {"CHECKPOINT"},
                {"BEGAN"},
                {"MESSAGE"}});
}

void AddJob(const v1::JobStatus& job, Table& table) {
  const WorkersProgress progress = ProgressOfWorkers(job);
  const bool reported = progress.workers > 0;
  table.AddRow({job.view().name(), JobStateName(job.view()), RegimeText(job.view().spec()),
                absl::StrCat(job.view().members_size(), "/", job.view().spec().workers()),
                HumanCount(job.step()), HumanCount(job.examples()),
                progress.loss ? Decimal(*progress.loss) : "-",
                reported ? HumanCount(static_cast<uint64_t>(progress.samples_per_second)) : "-",
                job.latest_checkpoint().empty() ? "-" : job.latest_checkpoint(),
                HumanTime(job.created_unix_ms()), job.view().message()});
}

std::string TornPushes(uint64_t count) {
  return absl::StrCat("Torn pushes: ", HumanCount(count),
                      count == 0 ? "" : ", counted in part because their worker was gone", "\n");
}

std::string LatePushes(const v1::JobStatus& job) {
  if (job.view().spec().regime().backup_workers() == 0) return "";
  return absl::StrCat("Late pushes: ", HumanCount(job.late_pushes()),
                      job.late_pushes() == 0 ? "" : ", dropped because their step had closed",
                      "\n");
}

}  // namespace

std::string JobStateName(const v1::JobView& view) {
  return WithoutPrefix(v1::JobState_Name(view.state()), "JOB_STATE_");
}

bool IsLive(v1::JobState state) {
  return state != v1::JOB_STATE_UNSPECIFIED && !HasEnded(state);
}

std::string StatusReport(const v1::StatusReply& status) {
  Table servers({{"SERVER"},
                 {"ADDRESS"},
                 {"STATE"},
                 {"LAST HEARD", Align::kRight},
                 {"MEMORY", Align::kRight},
                 {"MEMORY LIMIT", Align::kRight}});
  for (const v1::ServerStatus& server : status.servers()) {
    servers.AddRow(
        {server.server().name(), server.server().address(), server.live() ? "live" : "gone",
         Silence(server.silent_ms()), server.live() ? HumanBytes(server.memory_bytes()) : "-",
         server.memory_limit_bytes() == 0 ? "none" : HumanBytes(server.memory_limit_bytes())});
  }
  Table jobs = JobsTable();
  for (const v1::JobStatus& job : status.jobs()) AddJob(job, jobs);
  return absl::StrCat("coordinator ", status.build(), ", term ", status.term(), "\n\n",
                      servers.empty() ? "No servers.\n" : servers.ToString(), "\n",
                      jobs.empty() ? "No jobs.\n" : jobs.ToString());
}

std::string JobsReport(const v1::ListJobsReply& jobs) {
  Table table = JobsTable();
  for (const v1::JobStatus& job : jobs.jobs()) AddJob(job, table);
  return table.empty() ? "No jobs.\n" : table.ToString();
}

std::string JobReport(const v1::JobStatus& job) {
  Table table = JobsTable();
  AddJob(job, table);
  Table workers({{"RANK", Align::kRight},
                 {"HOST"},
                 {"OWN STEP", Align::kRight},
                 {"EXAMPLES", Align::kRight},
                 {"SAMPLES/S", Align::kRight},
                 {"STALENESS", Align::kRight},
                 {"WAITS FOR"},
                 {"GROUP", Align::kRight},
                 {"LAST HEARD", Align::kRight}});
  for (const v1::WorkerStatus& worker : job.workers()) {
    const v1::Progress& progress = worker.progress();
    workers.AddRow({absl::StrCat(worker.rank()), worker.host(), HumanCount(progress.step()),
                    HumanCount(progress.examples()),
                    HumanCount(Whole(progress.samples_per_second())), Decimal(progress.staleness()),
                    WaitsFor(worker), absl::StrCat(worker.sync_group()),
                    Silence(worker.silent_ms())});
  }
  return absl::StrCat(table.ToString(), "\n",
                      workers.empty() ? "No workers.\n" : workers.ToString(), "\n",
                      TornPushes(job.torn_pushes()), LatePushes(job));
}

std::string CheckpointsReport(const v1::ListCheckpointsReply& checkpoints) {
  Table table({{"JOB"},
               {"CHECKPOINT"},
               {"STEP", Align::kRight},
               {"EXAMPLES", Align::kRight},
               {"PARTS", Align::kRight},
               {"SIZE", Align::kRight},
               {"SAVED"},
               {"TRAINING METRICS"}});
  for (const v1::Manifest& manifest : checkpoints.manifests()) {
    uint64_t bytes = 0;
    for (const v1::CheckpointPart& part : manifest.parts()) {
      for (const v1::PartFile& file : part.files()) bytes += file.size();
    }
    std::vector<std::string> metrics;
    for (const auto& [name, value] : manifest.metrics()) {
      metrics.push_back(absl::StrCat(name, "=", Decimal(value)));
    }
    std::sort(metrics.begin(), metrics.end());
    table.AddRow({manifest.job(), manifest.id(), HumanCount(manifest.step()),
                  HumanCount(manifest.examples()), absl::StrCat(manifest.parts_size()),
                  HumanBytes(bytes), HumanTime(manifest.created_unix_ms()),
                  absl::StrJoin(metrics, " ")});
  }
  return table.empty() ? "No checkpoints.\n" : table.ToString();
}

std::string StopReport(const v1::JobStatus& before, const v1::JobStatus& after) {
  const v1::JobView& view = after.view();
  const std::string checkpoint =
      after.latest_checkpoint().empty()
          ? "it has no checkpoint.\n"
          : absl::StrCat("its newest checkpoint is ", after.latest_checkpoint(), ".\n");
  if (!IsLive(before.view().state())) {
    if (before.view().state() == v1::JOB_STATE_STOPPED) {
      return absl::StrCat(view.name(), " is stopped already; ", checkpoint);
    }
    return absl::StrCat(view.name(), " has ended already (", JobStateName(before.view()), "); ",
                        checkpoint);
  }
  if (!IsLive(view.state())) {
    const bool ran = before.view().state() == v1::JOB_STATE_RUNNING;
    const char* was = before.view().members().empty() ? " had no workers and"
                      : ran                           ? ""
                                                      : " had not begun and";
    return absl::StrCat(view.name(), was, " is stopped; ", checkpoint);
  }
  if (view.members().empty()) {
    return absl::StrCat(view.name(), " has no workers; it is saved and stopped.\n");
  }
  return absl::StrCat("The workers of ", view.name(),
                      " stop after their current step; then it is saved.\n");
}

std::string NothingLeftText(const v1::JobStatus& job) {
  const v1::ResumePoint& resume = job.view().resume();
  if (job.view().state() != v1::JOB_STATE_FINISHED || resume.checkpoint_id().empty() ||
      job.examples() > resume.examples()) {
    return "";
  }
  return absl::StrCat("Nothing was left to train: checkpoint ", resume.checkpoint_id(),
                      ", which it went on from, is at the end of the job. Train on with a greater "
                      "length (as --set epochs=N), or begin anew with --replace.");
}

std::string LocalReport(const LocalState& state) {
  Table table({{"PROCESS"}, {"ADDRESS"}, {"PID", Align::kRight}, {"RESTARTS", Align::kRight}});
  for (const LocalState::Process& process : state.processes) {
    table.AddRow({process.name, process.address, process.pid == 0 ? "-" : absl::StrCat(process.pid),
                  absl::StrCat(process.restarts)});
  }
  return table.ToString();
}

absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) {
    return absl::InternalError(absl::StrCat("cannot write the reply as JSON: ", status.ToString()));
  }
  return json;
}

}  // namespace weir
