// SPDX-License-Identifier: Apache-2.0
#include "worker/embedded/local_job.h"

#include <memory>
#include <utility>

#include "client/routed_parameter_client.h"
#include "client/transfer_engine.h"
#include "common/status_macros.h"
#include "worker/embedded/local_job_session.h"

namespace weir {

absl::StatusOr<Job> OpenLocalJob(const LocalJobOptions& options) {
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<LocalJobSession> session, LocalJobSession::Create(options));
  // Borrowed: the session outlives the client.
  const auto server =
      std::shared_ptr<ParameterEndpoint>(std::shared_ptr<void>(), &session->server());
  TransferEngine::Options engine_options;
  engine_options.worker = session->worker();
  engine_options.clock = options.clock;
  engine_options.executor = &session->executor();
  engine_options.connect = [server](const v1::ServerInfo&) { return server; };
  engine_options.report_cut = [session = session.get()](const CutReport& report) {
    session->OnCut(report);
  };
  auto engine = TransferEngine::Create(std::move(engine_options));
  session->Attach(engine);
  Job job;
  job.parameters = std::make_unique<RoutedParameterClient>(std::move(engine));
  job.session = std::move(session);
  return job;
}

}  // namespace weir
