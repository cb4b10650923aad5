// SPDX-License-Identifier: Apache-2.0
#include "tests/support/mini_cluster.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "checkpoint/manifest_store.h"
#include "common/clock.h"
#include "common/executor.h"
#include "common/file_system.h"
#include "common/random_id.h"
#include "common/status_macros.h"
#include "coordinator/coordinator.h"
#include "coordinator/coordinator_service.h"
#include "coordinator/rocks_state_store.h"
#include "coordinator/server_control_client.h"
#include "rpc/channels.h"
#include "rpc/coordinator_session.h"
#include "server/checkpoint_parts.h"
#include "server/parameter_server.h"
#include "server/parameter_service.h"
#include "server/remote_part_transport.h"
#include "server/server_control_service.h"
#include "server/term_record.h"

namespace weir {
namespace {

std::chrono::system_clock::time_point Now() {
  return std::chrono::system_clock::now();
}

}  // namespace

class MiniCluster::CoordinatorPart {
 public:
  CoordinatorPart(const Options& options, std::string folder)
      : options_(options),
        folder_(std::move(folder)),
        manifests_(FileSystem::Real(), folder_ + "/checkpoints"),
        executor_(Executor::CreatePool(2)),
        servers_(Clock::Real()) {}

  ~CoordinatorPart() {
    if (coordinator_ != nullptr) coordinator_->Shutdown();
    if (service_ != nullptr) service_->EndWatches();
    if (serving_.server != nullptr) serving_.server->Shutdown(Now());
    servers_.Stop();
    executor_.reset();
  }

  absl::Status Start(const std::string& listen) {
    WEIR_RETURN_IF_ERROR(FileSystem::Real().CreateFolder(folder_));
    WEIR_ASSIGN_OR_RETURN(store_, RocksStateStore::Open(folder_ + "/state"));
    Coordinator::Options core;
    core.clock = &Clock::Real();
    core.executor = executor_.get();
    core.store = store_.get();
    core.transport = &servers_;
    core.manifests = &manifests_;
    core.lease = options_.lease;
    core.heartbeat = options_.heartbeat;
    core.random = RandomId;
    core.build = "weir test";
    WEIR_ASSIGN_OR_RETURN(coordinator_, Coordinator::Create(std::move(core)));
    service_ = std::make_unique<CoordinatorService>(coordinator_, Clock::Real());
    WEIR_ASSIGN_OR_RETURN(serving_, Serve({.listen = listen, .services = {service_.get()}}));
    return absl::OkStatus();
  }

  const std::string& address() const { return serving_.address; }

 private:
  const Options& options_;
  const std::string folder_;
  std::unique_ptr<RocksStateStore> store_;
  ManifestStore manifests_;
  std::unique_ptr<Executor> executor_;
  ServerControlClient servers_;
  std::shared_ptr<Coordinator> coordinator_;
  std::unique_ptr<CoordinatorService> service_;
  Serving serving_;
};

class MiniCluster::ServerPart {
 public:
  ServerPart(std::string name, std::string folder)
      : name_(std::move(name)), folder_(std::move(folder)) {}

  ~ServerPart() {
    if (session_ != nullptr) session_->Stop();
    if (parts_ != nullptr) parts_->Stop();
    if (serving_.server != nullptr) serving_.server->Shutdown(Now());
  }

  absl::Status Start(const std::string& coordinator) {
    WEIR_RETURN_IF_ERROR(FileSystem::Real().CreateFolder(folder_));
    WEIR_ASSIGN_OR_RETURN(terms_, TermRecord::Open(FileSystem::Real(), folder_));
    CheckpointParts::Options parts;
    parts.files = &FileSystem::Real();
    parts.clock = &Clock::Real();
    parts.peers = &peers_;
    parts.root = absl::StrCat(folder_, "/checkpoints/", name_);
    parts.server = name_;
    WEIR_ASSIGN_OR_RETURN(parts_, CheckpointParts::Open(parts));
    ParameterServer::Options core;
    core.name = name_;
    core.incarnation = incarnation_;
    core.clock = &Clock::Real();
    core.executor = executor_.get();
    core_ = std::make_unique<ParameterServer>(core);
    data_plane_ = std::make_unique<ParameterService>(*core_, Clock::Real());
    control_ = std::make_unique<ServerControlService>(
        ServerControlService::Options{.server = core_.get(),
                                      .terms = terms_.get(),
                                      .executor = control_executor_.get(),
                                      .parts = parts_.get(),
                                      .clock = &Clock::Real()});
    WEIR_ASSIGN_OR_RETURN(serving_, Serve({.services = {data_plane_.get(), control_.get()}}));
    return Join(coordinator);
  }

 private:
  absl::Status Join(const std::string& coordinator) {
    CoordinatorSession::Options options;
    options.address = coordinator;
    options.clock = &Clock::Real();
    options.incarnation = incarnation_;
    options.seed = incarnation_;
    options.server = [this] {
      v1::RegisterServerRequest request;
      request.mutable_server()->set_name(name_);
      request.mutable_server()->set_address(serving_.address);
      request.mutable_server()->set_incarnation(incarnation_);
      return request;
    };
    options.report = [this] { return core_->Report(); };
    options.on_reported = [this](const v1::ServerReport& report) { core_->Reported(report); };
    options.on_event = [this](const v1::WatchEvent& event) {
      if (!terms_->Admit(event.term()).ok()) return;
      if (event.snapshot()) core_->KeepOnly(event.live_runs());
      if (event.has_view()) (void)core_->ApplyView(event.view());
    };
    WEIR_ASSIGN_OR_RETURN(session_, CoordinatorSession::Create(std::move(options)));
    session_->Start();
    return session_->WaitUntilRegistered(Clock::Real().Now() + absl::Seconds(20));
  }

  const std::string name_;
  const std::string folder_;
  const uint64_t incarnation_ = RandomId();
  const std::unique_ptr<Executor> executor_ = Executor::CreatePool(2);
  const std::unique_ptr<Executor> control_executor_ = Executor::CreatePool(2);
  RemotePartTransport peers_{Clock::Real()};
  std::unique_ptr<TermRecord> terms_;
  std::unique_ptr<ParameterServer> core_;
  std::unique_ptr<CheckpointParts> parts_;
  std::unique_ptr<ParameterService> data_plane_;
  std::unique_ptr<ServerControlService> control_;
  Serving serving_;
  std::unique_ptr<CoordinatorSession> session_;
};

MiniCluster::MiniCluster(Options options) : options_(std::move(options)) {}
MiniCluster::~MiniCluster() {
  servers_.clear();
  coordinator_.reset();
}

absl::StatusOr<std::unique_ptr<MiniCluster>> MiniCluster::Start(Options options) {
  std::unique_ptr<MiniCluster> cluster(new MiniCluster(std::move(options)));
  WEIR_RETURN_IF_ERROR(cluster->RestartCoordinator());
  for (int i = 0; i < cluster->options_.servers; ++i) {
    cluster->servers_.emplace_back();
    WEIR_RETURN_IF_ERROR(cluster->StartServer(i));
  }
  return cluster;
}

absl::Status MiniCluster::RestartCoordinator() {
  coordinator_.reset();
  coordinator_ =
      std::make_unique<CoordinatorPart>(options_, absl::StrCat(options_.folder, "/coordinator"));
  WEIR_RETURN_IF_ERROR(coordinator_->Start(listen_));
  listen_ = coordinator_->address();
  return absl::OkStatus();
}

absl::Status MiniCluster::StartServer(int index) {
  const std::string name = absl::StrCat("server-", index);
  servers_[index] = std::make_unique<ServerPart>(name, absl::StrCat(options_.folder, "/", name));
  return servers_[index]->Start(coordinator());
}

std::string MiniCluster::coordinator() const {
  return coordinator_->address();
}

absl::Status MiniCluster::RestartServer(int index) {
  servers_[index].reset();
  return StartServer(index);
}

}  // namespace weir
