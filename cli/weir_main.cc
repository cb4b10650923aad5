// SPDX-License-Identifier: Apache-2.0
// weir: runs jobs, keeps a local cluster, and shows what goes on.
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include "absl/time/clock.h"
#include "cli/console.h"
#include "cli/exit_code.h"
#include "cli/job_run.h"
#include "cli/local_supervisor.h"
#include "cli/queries.h"
#include "cli/reports.h"
#include "cli/unknown_word.h"
#include "common/clock.h"
#include "common/command_line.h"
#include "common/logging.h"
#include "rpc/protocol.h"

namespace {

using weir::Clock;

volatile sig_atomic_t stop_requests = 0;

void CountStopRequest(int) {
  stop_requests = stop_requests + 1;
}

// Without SA_RESTART: a wait ends at once when somebody asks to stop. Who started us may ignore
// SIGCHLD, and we with it: then the system does not tell how our children end.
void SetUpSignals() {
  struct sigaction action = {};
  action.sa_handler = CountStopRequest;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGCHLD, SIG_DFL);
}

std::string ProgramFolder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

std::string DefaultStateFolder() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state != '\0') {
    return std::string(state) + "/weir/local";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return std::string(home) + "/.local/state/weir/local";
  }
  return "runs/.local";
}

int Report(const absl::Status& status) {
  if (status.ok()) return 0;
  std::cerr << "weir: " << status.message() << std::endl;
  return 1;
}

int Print(const absl::StatusOr<std::string>& text) {
  if (text.ok()) std::cout << *text << std::flush;
  return Report(text.status());
}

// Without the last: a terminal may begin a new line behind it.
size_t TerminalColumns() {
  winsize size = {};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col - 1 : 79;
}

struct Flags {
  weir::JobRun::Options run;
  weir::LocalOptions local;
  weir::Query query;
  std::string job;
  bool replace = false;
  std::string resume;
  bool own_cluster = false;
  bool force = false;
};

int RunJob(Flags& flags) {
  weir::JobRun::Options& options = flags.run;
  options.program_folder = ProgramFolder();
  if (const char* path = std::getenv("PATH"); path != nullptr) options.search_path = path;
  options.clock = flags.query.clock;
  options.stop_requests = [] { return static_cast<int>(stop_requests); };
  if (flags.replace) options.overrides.push_back("replace=true");
  if (!flags.resume.empty()) options.overrides.push_back("resume=" + flags.resume);
  if (options.coordinator.empty() && !flags.own_cluster) {
    const auto local = weir::ReadLocalState(flags.local.state_folder);
    options.coordinator_is_local = local.ok();
    if (local.ok()) options.coordinator = local->coordinator;
  }
  weir::Console console(
      std::cout,
      {.terminal = isatty(STDOUT_FILENO) != 0, .columns = TerminalColumns, .clock = options.clock});
  const absl::StatusOr<int> code = weir::JobRun(options, console).Run();
  if (code.ok()) return *code;
  Report(code.status());
  return static_cast<int>(weir::RunExitOf(code.status()));
}

void AddRun(CLI::App& app, Flags& flags, int& code) {
  CLI::App* run = app.add_subcommand("run", "Run a job from its file to its end");
  weir::JobRun::Options& options = flags.run;
  run->add_option("job", options.job_file, "Job file (docs/job-file.md)")->required();
  run->add_option("--program", options.program,
                  "A program of your own that trains its replica class; else weir-worker")
      ->check(CLI::ExistingFile);
  run->add_option("--workers", options.workers, "Workers; 0: as the job file says")
      ->check(CLI::Range(0, 256));
  run->add_option("--servers", options.servers, "Servers of the cluster that the run brings up")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  run->add_option("--set", options.overrides, "key=value: replaces a value of the job file")
      ->allow_extra_args(false);
  run->add_option("--coordinator", options.coordinator,
                  "HOST:PORT of a running cluster; else that of `weir local up`, else a cluster "
                  "comes up for this run alone");
  run->add_flag("--own-cluster", flags.own_cluster,
                "Bring up a cluster for this run even where a local one is up");
  run->add_flag("--replace", flags.replace, "Replace a finished job of this name");
  run->add_option("--resume", flags.resume,
                  "latest, auto or the id of a checkpoint: go on from there (docs/checkpoints.md)");
  run->add_option("--runs", options.runs_folder, "Folder of the runs' folders")
      ->capture_default_str();
  run->add_option("--summary", options.summary_file, "Write the summary as JSON to this file too");
  weir::AddLogLevelFlag(*run, options.log_level);
  run->add_option("--state", flags.local.state_folder, "State folder of the local cluster")
      ->capture_default_str();
  run->callback([&] { code = RunJob(flags); });
}

void AddLocal(CLI::App& app, Flags& flags, int& code) {
  CLI::App* local = app.add_subcommand("local", "A cluster on this machine, for many jobs");
  local->require_subcommand(1);
  weir::LocalOptions& options = flags.local;
  const auto add = [&](const char* name, const char* text) {
    CLI::App* command = local->add_subcommand(name, text);
    command->add_option("--state", options.state_folder, "State folder")->capture_default_str();
    return command;
  };
  const auto add_cluster_options = [&](CLI::App* command) {
    command->add_option("--servers", options.servers, "Number of servers")
        ->check(CLI::Range(1, 256))
        ->capture_default_str();
    weir::AddLogLevelFlag(*command, options.log_level, "Of the daemons: ");
  };
  CLI::App* up = add("up", "Start it in the background, unless it runs");
  add_cluster_options(up);
  up->callback([&, command = up] {
    options.servers_wanted = command->count("--servers") > 0;
    const auto up = weir::LocalUp(options);
    if (up.ok() && !up->remark.empty()) std::cerr << up->remark << std::endl;
    code = up.ok() ? Print(weir::LocalReport(up->state)) : Report(up.status());
  });
  CLI::App* down = add("down", "Stop it");
  down->add_flag("--force", flags.force, "Even while jobs run on it: they lose it");
  down->callback([&] { code = Report(weir::LocalDown(options, flags.force)); });
  CLI::App* status = add("status", "Show its processes");
  status->add_flag("--json", flags.query.json, "JSON, for programs");
  status->callback([&] {
    const auto state = weir::ReadLocalState(options.state_folder);
    if (!state.ok()) {
      code = Report(state.status());
    } else {
      code = Print(flags.query.json ? weir::LocalStateToJson(*state) : weir::LocalReport(*state));
    }
  });
  CLI::App* supervise = add("supervise", "The supervisor that `up` starts; runs until SIGTERM");
  add_cluster_options(supervise);
  supervise->group("");  // not shown in the help
  supervise->callback([&] {
    code = Report(
        weir::SuperviseLocalCluster(options, [] { return static_cast<int>(stop_requests); }));
  });
}

void AddQueries(CLI::App& app, Flags& flags, int& code) {
  const auto add = [&](CLI::App* parent, const char* name, const char* text) {
    CLI::App* command = parent->add_subcommand(name, text);
    CLI::Option* coordinator = command->add_option(
        "--coordinator", flags.query.coordinator,
        std::string("HOST:PORT; else that of `weir local up`, else ") + weir::kDefaultCoordinator);
    command
        ->add_option(
            "--run-dir", flags.query.run_folder,
            "Folder of a run with its own cluster (runs/NAME): asks that, also after its end")
        ->excludes(coordinator);
    command->add_option("--state", flags.query.state_folder, "State folder of the local cluster")
        ->capture_default_str();
    command->add_option("--timeout", flags.query.timeout_seconds, "Seconds to wait for an answer")
        ->capture_default_str();
    command->add_flag("--json", flags.query.json, "JSON, for programs");
    return command;
  };
  add(&app, "status", "Coordinator, servers and jobs")->callback([&] {
    code = Print(weir::QueryStatus(flags.query));
  });
  CLI::App* jobs = add(&app, "jobs", "All jobs, or one with its workers");
  jobs->add_option("job", flags.job, "Name of a job");
  jobs->callback([&] { code = Print(weir::QueryJobs(flags.query, flags.job)); });
  CLI::App* checkpoint = app.add_subcommand("checkpoint", "Checkpoints");
  checkpoint->require_subcommand(1);
  CLI::App* list = add(checkpoint, "list", "Committed checkpoints, newest first");
  list->add_option("job", flags.job, "Name of a job; else those of all");
  list->callback([&] { code = Print(weir::QueryCheckpoints(flags.query, flags.job)); });
  CLI::App* stop = add(&app, "stop", "End a job after its workers' current step");
  stop->add_option("job", flags.job, "Name of the job")->required();
  stop->callback([&] { code = Print(weir::StopJob(flags.query, flags.job)); });
}

}  // namespace

int main(int argc, char** argv) {
  SetUpSignals();
  weir::SetUpLogging("weir", "warn");
  CLI::App app("Weir trains LibTorch models on parameter servers.", "weir");
  app.set_version_flag("--version", WEIR_VERSION);
  app.require_subcommand(1);
  Flags flags;
  flags.run.command = argv[0];
  flags.local.state_folder = DefaultStateFolder();
  flags.local.program_folder = ProgramFolder();
  flags.local.clock = &Clock::Real();
  flags.local.sleep = absl::SleepFor;
  flags.query.state_folder = flags.local.state_folder;
  flags.query.program_folder = flags.local.program_folder;
  flags.query.clock = &Clock::Real();
  int code = 0;
  AddRun(app, flags, code);
  AddLocal(app, flags, code);
  AddQueries(app, flags, code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const std::string unknown =
        error.get_exit_code() == 0 ? "" : weir::UnknownWord(app, argc, argv);
    if (!unknown.empty()) {
      std::cerr << "weir: " << unknown << std::endl;
      return static_cast<int>(weir::RunExit::kBadJob);
    }
    return app.exit(error) == 0 ? 0 : 2;
  }
  return code;
}
