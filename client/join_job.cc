// SPDX-License-Identifier: Apache-2.0
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/remote_connect.h"
#include "client/remote_job_session.h"
#include "client/routed_parameter_client.h"
#include "client/transfer_engine.h"
#include "common/clock.h"
#include "common/host_name.h"
#include "common/status_macros.h"
#include "weir/job.h"

namespace weir {
namespace {

absl::StatusOr<v1::JobSpec> SpecOf(const JoinOptions& options) {
  v1::JobSpec spec;
  if (!options.serialized_spec.empty()) {
    if (!spec.ParseFromString(options.serialized_spec)) {
      return absl::InvalidArgumentError("serialized_spec is no weir.v1.JobSpec");
    }
    return spec;
  }
  if (options.name.empty()) return absl::InvalidArgumentError("a job needs a name");
  spec.set_name(options.name);
  spec.set_workers(options.workers);
  spec.set_replicas_per_worker(1);
  spec.set_min_workers(options.workers);
  // No staleness at all, and a group of all, are sync itself.
  const bool sync =
      (options.regime == Regime::kBoundedStaleness && options.bounded_staleness == 0) ||
      (options.regime == Regime::kSyncGroups && options.sync_group_size == options.workers);
  spec.mutable_regime()->set_backup_workers(options.backup_workers);
  if (sync) {
    spec.mutable_regime()->set_kind(v1::REGIME_SYNC);
    return spec;
  }
  spec.mutable_regime()->set_kind(static_cast<v1::Regime>(options.regime));
  spec.mutable_regime()->set_bounded_staleness(options.bounded_staleness);
  spec.mutable_regime()->set_sync_group_size(options.sync_group_size);
  return spec;
}

}  // namespace

absl::StatusOr<Job> JoinJob(const JoinOptions& options) {
  RemoteJobSession::Options session_options;
  session_options.coordinator = options.coordinator;
  WEIR_ASSIGN_OR_RETURN(session_options.spec, SpecOf(options));
  session_options.wanted_rank = options.wanted_rank;
  session_options.host = absl::StrCat(HostName(), ":", getpid());
  session_options.timeout = options.timeout;
  session_options.clock = &Clock::Real();
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<RemoteJobSession> session,
                        RemoteJobSession::Join(std::move(session_options)));
  TransferEngine::Options engine_options;
  engine_options.worker = session->worker();
  engine_options.seed = static_cast<uint64_t>(session->worker());
  engine_options.clock = &Clock::Real();
  engine_options.executor = &session->executor();
  engine_options.connect = ConnectRemotely;
  engine_options.report_cut = [session = session.get()](const CutReport& report) {
    session->ReportCut(report);
  };
  engine_options.warn = [](const std::string& warning) { spdlog::warn("{}", warning); };
  auto engine = TransferEngine::Create(std::move(engine_options));
  session->Attach(engine);
  Job job;
  job.parameters = std::make_unique<RoutedParameterClient>(std::move(engine));
  job.session = std::move(session);
  return job;
}

}  // namespace weir
