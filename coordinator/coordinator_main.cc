// SPDX-License-Identifier: Apache-2.0
// weir-coordinator: knows the members and jobs of one cluster, and commits their checkpoints.
#include <grpcpp/health_check_service_interface.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "checkpoint/manifest_store.h"
#include "common/clock.h"
#include "common/command_line.h"
#include "common/executor.h"
#include "common/file_system.h"
#include "common/logging.h"
#include "common/random_id.h"
#include "common/shutdown_signal.h"
#include "common/status_macros.h"
#include "coordinator/coordinator.h"
#include "coordinator/coordinator_service.h"
#include "coordinator/rocks_state_store.h"
#include "coordinator/server_control_client.h"
#include "rpc/channels.h"
#include "rpc/grpc_log.h"
#include "rpc/protocol.h"

namespace weir {
namespace {

constexpr std::chrono::seconds kLastCalls(1);
constexpr int kThreads = 4;  // some of them may wait for the disk

struct Flags {
  std::string listen = kDefaultCoordinator;
  std::string advertise;  // for the log: everybody is told where the coordinator is
  std::string data_dir = "weir-coordinator-data";
  std::string log_level = "info";
  int64_t lease_ms = 10000;
  int64_t heartbeat_ms = 1000;
  bool insecure_listen = false;
};

// The parts of the program, in the order in which they need each other: destruction goes backwards,
// when Stop has seen to it that nothing runs any more.
class CoordinatorDaemon {
 public:
  explicit CoordinatorDaemon(const Flags& flags)
      : flags_(flags),
        manifests_(FileSystem::Real(), absl::StrCat(flags.data_dir, "/checkpoints")),
        executor_(Executor::CreatePool(kThreads)),
        servers_(std::make_unique<ServerControlClient>(Clock::Real())) {}
  ~CoordinatorDaemon() { Stop(); }

  absl::Status Start();
  const std::string& address() const { return serving_.address; }

 private:
  void Stop();

  const Flags flags_;
  std::unique_ptr<RocksStateStore> store_;
  ManifestStore manifests_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<ServerControlClient> servers_;
  std::shared_ptr<Coordinator> coordinator_;
  std::unique_ptr<CoordinatorService> service_;
  Serving serving_;
};

absl::Status CoordinatorDaemon::Start() {
  WEIR_ASSIGN_OR_RETURN(store_, RocksStateStore::Open(absl::StrCat(flags_.data_dir, "/state")));
  Coordinator::Options options;
  options.clock = &Clock::Real();
  options.executor = executor_.get();
  options.store = store_.get();
  options.transport = servers_.get();
  options.manifests = &manifests_;
  options.lease = absl::Milliseconds(flags_.lease_ms);
  options.heartbeat = absl::Milliseconds(flags_.heartbeat_ms);
  options.random = RandomId;
  options.build = kBuild;
  WEIR_ASSIGN_OR_RETURN(coordinator_, Coordinator::Create(std::move(options)));
  service_ = std::make_unique<CoordinatorService>(coordinator_, Clock::Real());
  WEIR_ASSIGN_OR_RETURN(serving_, Serve({.listen = flags_.listen,
                                         .insecure_listen = flags_.insecure_listen,
                                         .services = {service_.get()}}));
  spdlog::info("serves address={} advertised={} term={}", serving_.address,
               flags_.advertise.empty() ? serving_.address : flags_.advertise,
               coordinator_->term());
  return absl::OkStatus();
}

void CoordinatorDaemon::Stop() {
  if (serving_.server != nullptr) {
    serving_.server->GetHealthCheckService()->SetServingStatus(false);
  }
  if (coordinator_ != nullptr) coordinator_->Shutdown();
  if (service_ != nullptr) service_->EndWatches();
  if (serving_.server != nullptr) {
    serving_.server->Shutdown(std::chrono::system_clock::now() + kLastCalls);
  }
  servers_->Stop();
  // Runs what is queued, answers included, while everything that it needs is still there.
  executor_.reset();
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "weir-coordinator: %s\n", std::string(status.message()).c_str());
  return 1;
}

int RunDaemon(const Flags& flags) {
  if (flags.heartbeat_ms < 1 || flags.lease_ms < 2 * flags.heartbeat_ms) {
    return Fail(absl::InvalidArgumentError(
        "--lease-ms must be at least twice --heartbeat-ms, which must be at least 1"));
  }
  ShutdownSignal shutdown;
  CoordinatorDaemon daemon(flags);
  if (const absl::Status started = daemon.Start(); !started.ok()) return Fail(started);
  std::printf("weir-coordinator%s%s\n", kReadyMark, daemon.address().c_str());
  std::fflush(stdout);
  shutdown.Wait();
  spdlog::info("stops");
  return 0;
}

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("--listen", flags.listen, "HOST:PORT to serve on; port 0 takes a free one")
      ->capture_default_str();
  app.add_option("--advertise", flags.advertise, "HOST:PORT that others dial, if not --listen's");
  app.add_flag("--insecure-listen", flags.insecure_listen,
               "serve in plaintext where other machines can reach it");
  app.add_option("--data-dir", flags.data_dir, "folder for the state and the manifests")
      ->capture_default_str();
  app.add_option("--lease-ms", flags.lease_ms, "silence after which a member counts as dead")
      ->capture_default_str();
  app.add_option("--heartbeat-ms", flags.heartbeat_ms, "how often members say that they live")
      ->capture_default_str();
  AddLogLevelFlag(app, flags.log_level);
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) {
  weir::Flags flags;
  CLI::App app("The coordinator of a Weir cluster.", "weir-coordinator");
  app.set_version_flag("--version", weir::kBuild);
  weir::AddFlags(app, flags);
  if (const auto code = weir::ParseCommandLine(app, argc, argv)) return *code;
  weir::SetUpLogging("weir-coordinator", flags.log_level);
  weir::RouteGrpcLog();
  return weir::RunDaemon(flags);
}
