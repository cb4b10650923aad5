// SPDX-License-Identifier: Apache-2.0
#include "worker/worker_main.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <thread>

#include "common/allocator.h"
#include "common/command_line.h"
#include "common/logging.h"
#include "rpc/channels.h"
#include "worker/embedded/local_job.h"
#include "worker/worker_run.h"

namespace weir {
namespace {

struct Flags {
  std::string job;
  std::string coordinator;
  bool local = false;
  std::vector<std::string> set;
  bool check = false;
  bool print_job = false;
  int rank = -1;
  double join_timeout_s = 60;
  std::string run_dir;
  std::string data_dir;
  std::string log_level = "info";
};

// One computing thread a worker process, and none that spins: docs/performance.md. The libraries
// read these when they are loaded, so the program starts once more where they are missing.
void RestartWithThreadSettings(char** argv) {
  constexpr std::array<std::array<const char*, 2>, 4> kSettings = {{{"OMP_NUM_THREADS", "1"},
                                                                    {"OPENBLAS_NUM_THREADS", "1"},
                                                                    {"OMP_WAIT_POLICY", "PASSIVE"},
                                                                    {"GOMP_SPINCOUNT", "0"}}};
  constexpr char kRestarted[] = "WEIR_WORKER_RESTARTED";
  bool complete = true;
  for (const auto& [name, value] : kSettings) complete &= getenv(name) != nullptr;
  if (complete || getenv(kRestarted) != nullptr) return;
  for (const auto& [name, value] : kSettings) setenv(name, value, 0);
  setenv(kRestarted, "1", 1);
  execv("/proc/self/exe", argv);
  // Without it training is slower, not wrong.
  perror("weir-worker: cannot restart with thread settings");
}

// Waits for SIGTERM and SIGINT on a thread of its own.
class Signals {
 public:
  // `stops_first`: the first signal asks the job to end with a checkpoint.
  explicit Signals(bool stops_first) : stops_first_(stops_first) {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    // Before any other thread starts, so that all inherit it.
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  ~Signals() { EndWatch(); }

  void Watch(WorkerRun& run) {
    thread_ = std::thread([this, &run] { Loop(run); });
  }
  // Before the run ends its life.
  void EndWatch() {
    done_ = true;
    if (thread_.joinable()) thread_.join();
    if (leaving_.joinable()) leaving_.join();
  }
  int received() const { return received_; }
  bool stop_requested() const { return stops_first_ && received_ != 0; }

 private:
  // A step mostly ends by itself within the first grace; a wait for others is cut by leaving the
  // job; what hangs even then is left to the coordinator's lease.
  static constexpr int kGraceMs = 3000;
  static constexpr int kLastMs = 10000;
  static constexpr int kPollMs = 100;
  static constexpr int kStopMs = 60000;  // for a step and its checkpoint, where they come first

  void Loop(WorkerRun& run) {
    int stop_ms = 0;   // left for an end with a checkpoint
    int since_ms = 0;  // the interruption
    while (!done_ || leaves_) {
      const timespec poll = {0, kPollMs * 1000000};
      const int signal = sigtimedwait(&set_, nullptr, &poll);
      if (signal > 0 && received_ != 0) _exit(128 + signal);
      if (signal > 0) {
        received_ = signal;
        if (!run.joined()) _exit(128 + signal);  // nothing has begun
        if (stops_first_) stop_ms = kStopMs;
        if (stops_first_) spdlog::info("stops after this step; once more to end at once");
      }
      if (received_ == 0) continue;
      if (stop_ms > 0) {
        stop_ms -= kPollMs;
        if (stop_ms == 0) spdlog::error("not saved within {} s: ends without", kStopMs / 1000);
        continue;
      }
      if (since_ms == 0) run.Interrupt();
      since_ms += kPollMs;
      if (since_ms == kGraceMs) LeaveNow(run);
      if (since_ms >= kLastMs) _exit(128 + received_);
    }
  }

  // Beside the loop: a coordinator that is away is called for a minute.
  void LeaveNow(WorkerRun& run) {
    spdlog::info("interrupted: leaves the job at once");
    leaves_ = true;
    leaving_ = std::thread([this, &run] {
      run.LeaveNow("interrupted by a signal");
      leaves_ = false;
    });
  }

  const bool stops_first_;
  sigset_t set_;
  std::thread thread_;
  std::thread leaving_;  // begun by thread_
  std::atomic<bool> leaves_{false};
  std::atomic<bool> done_{false};
  std::atomic<int> received_{0};
};

void Declare(CLI::App& app, Flags& flags) {
  app.add_option("--job", flags.job, "The job file: docs/job-file.md")->required();
  auto* coordinator =
      app.add_option("--coordinator", flags.coordinator, "HOST:PORT of the job's coordinator");
  app.add_flag("--local", flags.local, "Run the whole job in this process, without a cluster")
      ->excludes(coordinator);
  app.add_option("--set", flags.set,
                 "key=value in place of the job file's, as in data.batch.global=64")
      ->allow_extra_args(false);
  app.add_flag("--check", flags.check, "Validate, build the model, train one batch, and end");
  app.add_flag("--print-job", flags.print_job, "Print every resolved value as YAML, and end");
  app.add_option("--rank", flags.rank, "The rank to ask for; -1: any");
  app.add_option("--join-timeout-s", flags.join_timeout_s,
                 "How long to try to reach the coordinator");
  app.add_option("--run-dir", flags.run_dir, "Where metrics and summary go; default runs/NAME");
  app.add_option("--data-dir", flags.data_dir,
                 "Where --local puts checkpoints; default the run dir");
  AddLogLevelFlag(app, flags.log_level);
}

WorkerRunOptions RunOptions(const Flags& flags, const Signals& signals) {
  WorkerRunOptions options;
  options.job_file = flags.job;
  options.overrides = flags.set;
  options.run_dir = flags.run_dir;
  options.display = stdout;
  options.terminal = isatty(STDOUT_FILENO) != 0;
  options.open_job = [flags, &signals](const v1::JobSpec& spec) -> absl::StatusOr<Job> {
    if (flags.local) {
      LocalJobOptions local;
      local.spec = spec;
      local.data_dir = !flags.data_dir.empty() ? flags.data_dir
                       : flags.run_dir.empty() ? "runs/" + spec.name()
                                               : flags.run_dir;
      local.stop_requested = [&signals] { return signals.stop_requested(); };
      return OpenLocalJob(local);
    }
    spdlog::info("joining job={} coordinator={}", spec.name(), flags.coordinator);
    JoinOptions join;
    join.coordinator = flags.coordinator;
    join.name = spec.name();
    join.wanted_rank = flags.rank;
    join.timeout = absl::Seconds(flags.join_timeout_s);
    join.serialized_spec = spec.SerializeAsString();
    return JoinJob(join);
  };
  return options;
}

}  // namespace

int WorkerMain(int argc, char** argv, const ModelRegistry& models) {
  RestartWithThreadSettings(argv);
  Flags flags;
  const std::string program = std::filesystem::path(argv[0]).filename();
  CLI::App app("Trains one worker's share of a job.", program);
  Declare(app, flags);
  if (const std::optional<int> code = ParseCommandLine(app, argc, argv)) return *code;
  if (!flags.local && flags.coordinator.empty() && !flags.check && !flags.print_job) {
    std::cerr << program << ": give --coordinator HOST:PORT or --local\n";
    return static_cast<int>(WorkerExit::kBadJob);
  }
  if (const absl::Status address = CheckAddress(flags.coordinator);
      !flags.coordinator.empty() && !address.ok()) {
    std::cerr << program << ": --coordinator: " << address.message() << "\n";
    return static_cast<int>(WorkerExit::kBadJob);
  }
  SetUpLogging(program, flags.log_level);
  KeepFreedMemory();
  Signals signals(flags.local && !flags.check && !flags.print_job);
  WorkerRun run(RunOptions(flags, signals), models, Clock::Real());
  signals.Watch(run);

  std::string text;
  const WorkerResult result = flags.print_job ? run.PrintJob(text)
                              : flags.check   ? run.Check(text)
                                              : run.Train();
  signals.EndWatch();
  std::cout << text << std::flush;
  if (!result.status.ok() && signals.received() == 0) {
    std::cerr << program << ": " << result.status.message() << "\n";
  }
  return signals.received() != 0 ? 128 + signals.received() : static_cast<int>(result.exit);
}

}  // namespace weir
