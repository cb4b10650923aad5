// SPDX-License-Identifier: Apache-2.0
// weir-server: holds shards of variables for many jobs, as the coordinator tells it.
#include <grpcpp/health_check_service_interface.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/allocator.h"
#include "common/command_line.h"
#include "common/file_system.h"
#include "common/host_name.h"
#include "common/logging.h"
#include "common/notification.h"
#include "common/random_id.h"
#include "common/shutdown_signal.h"
#include "common/status_macros.h"
#include "rpc/channels.h"
#include "rpc/coordinator_session.h"
#include "rpc/grpc_log.h"
#include "rpc/protocol.h"
#include "server/checkpoint_parts.h"
#include "server/parameter_server.h"
#include "server/parameter_service.h"
#include "server/remote_part_transport.h"
#include "server/server_control_service.h"
#include "server/term_record.h"

namespace weir {
namespace {

constexpr std::chrono::seconds kLastCalls(1);
constexpr absl::Duration kFarewell = absl::Seconds(1);
constexpr int kCoreThreads = 2;
constexpr int kControlThreads = 2;

struct Flags {
  std::string coordinator;
  std::string name;
  std::string listen = "127.0.0.1:4661";
  std::string advertise;
  std::string data_dir = "weir-server-data";
  std::string log_level = "info";
  uint64_t memory_limit_bytes = 0;
  int drain_timeout_ms = 10'000;
  bool insecure_listen = false;
};

// Where others reach what listens on `address`.
std::string Advertised(const Flags& flags, const std::string& address) {
  if (!flags.advertise.empty()) return flags.advertise;
  for (const char* any : {"0.0.0.0:", "[::]:"}) {
    if (absl::StartsWith(address, any)) {
      return absl::StrCat(HostName(), address.substr(address.rfind(':')));
    }
  }
  return address;
}

// The parts of the program, in the order in which they need each other. Used from the main thread;
// the session's threads come in through TakeEvent.
class ServerDaemon {
 public:
  explicit ServerDaemon(const Flags& flags) : flags_(flags) {}
  ~ServerDaemon() {
    if (session_ != nullptr) session_->Stop();
    // Before gRPC's shutdown, which waits for the calls that wait here.
    if (core_ != nullptr) core_->Stop();
    if (parts_ != nullptr) parts_->Stop();
    if (serving_.server != nullptr) {
      serving_.server->Shutdown(std::chrono::system_clock::now() + kLastCalls);
    }
  }

  absl::Status Start(ShutdownSignal& shutdown);
  // No new jobs; waits, not for ever, until the pushes in flight are answered.
  void Drain();
  // Tells the coordinator that it stops.
  void Leave();

  const std::string& address() const { return serving_.address; }
  // Why the coordinator will not have this server; OK while it will.
  absl::Status ended() const { return session_->ended(); }

 private:
  absl::Status StartSession(ShutdownSignal& shutdown);
  v1::RegisterServerRequest Registration() const;
  void TakeEvent(const v1::WatchEvent& event);

  const Flags flags_;
  const uint64_t incarnation_ = RandomId();
  const std::unique_ptr<Executor> core_executor_ = Executor::CreatePool(kCoreThreads);
  const std::unique_ptr<Executor> control_executor_ = Executor::CreatePool(kControlThreads);
  RemotePartTransport peers_{Clock::Real()};
  std::unique_ptr<TermRecord> terms_;
  std::unique_ptr<ParameterServer> core_;
  std::unique_ptr<CheckpointParts> parts_;
  std::unique_ptr<ParameterService> data_plane_;
  std::unique_ptr<ServerControlService> control_;
  Serving serving_;
  std::unique_ptr<CoordinatorSession> session_;
};

absl::Status ServerDaemon::Start(ShutdownSignal& shutdown) {
  WEIR_RETURN_IF_ERROR(CheckAddress(flags_.coordinator));
  if (!flags_.advertise.empty()) WEIR_RETURN_IF_ERROR(CheckAddress(flags_.advertise));
  WEIR_ASSIGN_OR_RETURN(terms_, TermRecord::Open(FileSystem::Real(), flags_.data_dir));
  CheckpointParts::Options parts;
  parts.files = &FileSystem::Real();
  parts.clock = &Clock::Real();
  parts.peers = &peers_;
  // With the server's name, so that servers may share a folder.
  parts.root =
      std::filesystem::absolute(flags_.data_dir).lexically_normal() / "checkpoints" / flags_.name;
  parts.server = flags_.name;
  WEIR_ASSIGN_OR_RETURN(parts_, CheckpointParts::Open(parts));
  ParameterServer::Options core;
  core.name = flags_.name;
  core.incarnation = incarnation_;
  core.memory_limit_bytes = flags_.memory_limit_bytes;
  core.clock = &Clock::Real();
  core.executor = core_executor_.get();
  core_ = std::make_unique<ParameterServer>(core);
  data_plane_ = std::make_unique<ParameterService>(*core_, Clock::Real());
  control_ = std::make_unique<ServerControlService>(
      ServerControlService::Options{.server = core_.get(),
                                    .terms = terms_.get(),
                                    .executor = control_executor_.get(),
                                    .parts = parts_.get(),
                                    .clock = &Clock::Real()});
  WEIR_ASSIGN_OR_RETURN(serving_, Serve({.listen = flags_.listen,
                                         .insecure_listen = flags_.insecure_listen,
                                         .services = {data_plane_.get(), control_.get()}}));
  return StartSession(shutdown);
}

absl::Status ServerDaemon::StartSession(ShutdownSignal& shutdown) {
  CoordinatorSession::Options options;
  options.address = flags_.coordinator;
  options.clock = &Clock::Real();
  options.incarnation = incarnation_;
  options.seed = incarnation_;
  options.server = [this] { return Registration(); };
  options.report = [this] { return core_->Report(); };
  options.on_reported = [this](const v1::ServerReport& report) { core_->Reported(report); };
  options.on_event = [this](const v1::WatchEvent& event) { TakeEvent(event); };
  options.on_ended = [&shutdown](const absl::Status&) { shutdown.Request(); };
  WEIR_ASSIGN_OR_RETURN(session_, CoordinatorSession::Create(std::move(options)));
  session_->Start();
  return absl::OkStatus();
}

v1::RegisterServerRequest ServerDaemon::Registration() const {
  v1::RegisterServerRequest request;
  request.mutable_server()->set_name(flags_.name);
  request.mutable_server()->set_address(Advertised(flags_, serving_.address));
  request.mutable_server()->set_incarnation(incarnation_);
  request.set_memory_limit_bytes(flags_.memory_limit_bytes);
  request.set_build(kBuild);
  return request;
}

void ServerDaemon::TakeEvent(const v1::WatchEvent& event) {
  if (const absl::Status admitted = terms_->Admit(event.term()); !admitted.ok()) {
    spdlog::warn("view ignored: {}", admitted.ToString());
    return;
  }
  if (event.snapshot()) core_->KeepOnly(event.live_runs());
  if (!event.has_view()) return;
  const v1::JobView& view = event.view();
  const absl::Status applied = core_->ApplyView(view);
  if (!applied.ok()) {
    spdlog::error("view refused job={} version={}: {}", view.name(), view.version(),
                  applied.ToString());
  }
}

// Others need not wait for the end of a lease to know that it is gone.
void ServerDaemon::Leave() {
  v1::LeaveRequest request;
  request.set_worker(incarnation_);
  const absl::Status left = session_->Leave(request, Clock::Real().Now() + kFarewell).status();
  if (!left.ok()) spdlog::warn("the coordinator is not told: {}", std::string(left.message()));
}

void ServerDaemon::Drain() {
  serving_.server->GetHealthCheckService()->SetServingStatus(false);
  auto drained = std::make_shared<Notification>();
  core_->Drain([drained] { drained->Notify(); });
  const absl::Duration longest = absl::Milliseconds(flags_.drain_timeout_ms);
  if (!drained->WaitFor(longest)) {
    spdlog::warn("still some pushes in flight after {}; going all the same",
                 absl::FormatDuration(longest));
  }
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "weir-server: %s\n", std::string(status.message()).c_str());
  return 1;
}

int RunServer(const Flags& flags) {
  ShutdownSignal shutdown;
  ServerDaemon daemon(flags);
  if (const absl::Status started = daemon.Start(shutdown); !started.ok()) return Fail(started);
  std::printf("weir-server%s%s\n", kReadyMark, daemon.address().c_str());
  std::fflush(stdout);
  spdlog::info("serving name={} address={}", flags.name, daemon.address());
  shutdown.Wait();
  if (!daemon.ended().ok()) return Fail(daemon.ended());
  spdlog::info("draining name={}", flags.name);
  daemon.Drain();
  daemon.Leave();
  return 0;
}

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("--coordinator", flags.coordinator, "HOST:PORT of the coordinator")->required();
  app.add_option("--name", flags.name, "name of this server, the same in all its lives")
      ->default_str("the host's name");
  app.add_option("--listen", flags.listen, "HOST:PORT to serve on; port 0 takes a free one")
      ->capture_default_str();
  app.add_option("--advertise", flags.advertise, "HOST:PORT that others dial, if not --listen's");
  app.add_flag("--insecure-listen", flags.insecure_listen,
               "serve in plaintext where other machines can reach it");
  app.add_option("--data-dir", flags.data_dir, "folder for checkpoint parts and the term")
      ->capture_default_str();
  app.add_option("--memory-limit", flags.memory_limit_bytes,
                 "bytes for all jobs together, as 4GiB; 0: no limit")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--drain-timeout-ms", flags.drain_timeout_ms,
                 "on SIGTERM: how long the pushes in flight may take")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  AddLogLevelFlag(app, flags.log_level);
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) {
  weir::KeepFreedMemory();
  weir::Flags flags;
  flags.name = weir::HostName();
  CLI::App app("A parameter server of Weir.", "weir-server");
  app.set_version_flag("--version", weir::kBuild);
  weir::AddFlags(app, flags);
  if (const auto code = weir::ParseCommandLine(app, argc, argv)) return *code;
  weir::SetUpLogging("weir-server", flags.log_level);
  weir::RouteGrpcLog();
  return weir::RunServer(flags);
}
