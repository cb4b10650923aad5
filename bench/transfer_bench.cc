// SPDX-License-Identifier: Apache-2.0
// Pull, push and push-pull of variables (one by default) between this process and real daemons over
// loopback, beside a plain TCP connection that copies the same bytes to another process and gets
// one byte back (push-pull: copies them there, then as many back). Both take turns; a ratio is the
// median over the turns. Prints a table in Markdown. GB are payload bytes, both ways for push-pull;
// CPU seconds are those of both processes together, the optimizer's work (SGD) included.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/bench_job.h"
#include "bench/loopback_cluster.h"
#include "bench/plain_tcp.h"
#include "bench/statistics.h"
#include "bench/stopwatch.h"
#include "common/allocator.h"
#include "common/status_macros.h"

namespace weir::bench {
namespace {

struct Options {
  std::vector<int> mebibytes = {1, 4, 64};
  int variables = 1;
  int servers = 1;
  int turns = 21;
  double turn_seconds = 0.1;  // about; each way
};

using Action = std::function<absl::Status()>;

// One way of doing one operation, with what its runs have cost so far.
class Contestant {
 public:
  Contestant(Action action, std::vector<pid_t> processes)
      : action_(std::move(action)), processes_(std::move(processes)) {}

  // Mean seconds of one of `repetitions`.
  absl::StatusOr<double> Run(int repetitions) {
    const double cpu_before = CpuSeconds(processes_);
    const Stopwatch stopwatch;
    for (int i = 0; i < repetitions; ++i) WEIR_RETURN_IF_ERROR(action_());
    const double seconds = stopwatch.seconds();
    cpu_seconds_ += CpuSeconds(processes_) - cpu_before;
    runs_ += repetitions;
    return seconds / repetitions;
  }

  double cpu_seconds_per_run() const { return cpu_seconds_ / runs_; }

 private:
  const Action action_;
  const std::vector<pid_t> processes_;
  double cpu_seconds_ = 0;
  int runs_ = 0;
};

struct Operation {
  const char* name;
  Action ours;
  Action plain_tcp;
  double bytes;
};

class TransferBench {
 public:
  TransferBench(const Options& options, LoopbackCluster& cluster, PlainTcp& tcp)
      : options_(options), cluster_(cluster), tcp_(tcp) {}

  absl::Status RunAll() {
    std::printf(
        "| MiB | operation | Weir GB/s | TCP GB/s | of TCP | Weir CPU s/GB | TCP CPU s/GB |\n");
    std::printf("| ---: | --- | ---: | ---: | ---: | ---: | ---: |\n");
    for (const int mebibytes : options_.mebibytes) WEIR_RETURN_IF_ERROR(RunSize(mebibytes));
    return absl::OkStatus();
  }

 private:
  absl::Status RunSize(int mebibytes) {
    const size_t bytes = static_cast<size_t>(mebibytes) << 20;
    WEIR_ASSIGN_OR_RETURN(const auto job, BenchJob::Create(cluster_.coordinator(),
                                                           absl::StrCat("transfer-", mebibytes),
                                                           bytes / 4, options_.variables));
    std::vector<std::byte> up(bytes);
    std::vector<std::byte> down(bytes);
    const double size = static_cast<double>(bytes);
    const Operation operations[] = {
        {"pull", [&] { return job->Pull(); },
         [&] { return Transfer(tcp_, {}, absl::MakeSpan(down)); }, size},
        {"push", [&] { return job->Push(); }, [&] { return Transfer(tcp_, up, {}); }, size},
        {"push-pull", [&] { return job->PushPull(); },
         [&] { return Transfer(tcp_, up, absl::MakeSpan(down)); }, 2 * size}};
    for (const Operation& operation : operations) {
      WEIR_RETURN_IF_ERROR(Measure(mebibytes, operation));
    }
    return absl::OkStatus();
  }

  absl::Status Measure(int mebibytes, const Operation& operation) {
    std::vector<pid_t> our_processes = cluster_.server_pids();
    our_processes.push_back(0);
    Contestant ours(operation.ours, our_processes);
    Contestant tcp(operation.plain_tcp, {0, cluster_.peer_pid()});
    // The first runs also tell how many repetitions make a turn.
    WEIR_RETURN_IF_ERROR(Contestant(operation.plain_tcp, {}).Run(3).status());
    WEIR_RETURN_IF_ERROR(Contestant(operation.ours, {}).Run(3).status());
    WEIR_ASSIGN_OR_RETURN(const double once, Contestant(operation.ours, {}).Run(3));
    const int repetitions = std::max(1, static_cast<int>(options_.turn_seconds / once));

    Alternation times;
    for (int turn = 0; turn < options_.turns; ++turn) {
      WEIR_ASSIGN_OR_RETURN(const double ours_seconds, ours.Run(repetitions));
      WEIR_ASSIGN_OR_RETURN(const double tcp_seconds, tcp.Run(repetitions));
      times.Add(ours_seconds, tcp_seconds);
    }
    const double gigabytes = operation.bytes / 1e9;
    std::printf("| %d | %s | %.2f | %.2f | %.2f | %.2f | %.2f |\n", mebibytes, operation.name,
                gigabytes / times.ours_seconds(), gigabytes / times.limit_seconds(),
                times.of_limit(), ours.cpu_seconds_per_run() / gigabytes,
                tcp.cpu_seconds_per_run() / gigabytes);
    std::fflush(stdout);
    return absl::OkStatus();
  }

  const Options& options_;
  LoopbackCluster& cluster_;
  PlainTcp& tcp_;
};

absl::Status Run(const Options& options) {
  WEIR_ASSIGN_OR_RETURN(const auto cluster, LoopbackCluster::Start(options.servers));
  WEIR_ASSIGN_OR_RETURN(PlainTcp tcp, PlainTcp::Connect(cluster->peer_tcp()));
  return TransferBench(options, *cluster, tcp).RunAll();
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  weir::KeepFreedMemory();
  weir::bench::Options options;
  CLI::App app("Transfers over loopback beside plain TCP");
  app.add_option("--mib", options.mebibytes, "Sizes, over all variables")->capture_default_str();
  app.add_option("--variables", options.variables)->capture_default_str();
  app.add_option("--servers", options.servers)->capture_default_str();
  app.add_option("--turns", options.turns)->capture_default_str();
  app.add_option("--turn-seconds", options.turn_seconds)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = weir::bench::Run(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "transfer_bench: %s\n", status.ToString().c_str());
  return 1;
}
