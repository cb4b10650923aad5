// SPDX-License-Identifier: Apache-2.0
// The smallest push-pull (one element) beside an empty gRPC call and a plain TCP round trip of one
// byte, all to other processes over loopback and taking turns. Prints a table in Markdown.
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <future>
#include <vector>

#include "absl/status/status.h"
#include "bench/bench_job.h"
#include "bench/loopback_cluster.h"
#include "bench/plain_tcp.h"
#include "bench/stopwatch.h"
#include "common/allocator.h"
#include "common/grpc_status.h"
#include "common/status_macros.h"
#include "weir/v1/parameter_server.grpc.pb.h"

namespace weir::bench {
namespace {

struct Options {
  int turns = 50;
  int calls = 100;  // of each kind, in each turn
};

// By the callback interface, as our client makes its calls.
absl::Status EmptyCall(v1::ParameterService::Stub& stub) {
  grpc::ClientContext context;
  v1::HelloRequest request;
  v1::HelloReply reply;
  std::promise<grpc::Status> done;
  stub.async()->Hello(&context, &request, &reply,
                      [&](grpc::Status status) { done.set_value(std::move(status)); });
  return FromGrpcStatus(done.get_future().get());
}

struct Kind {
  const char* name;
  std::function<absl::Status()> call;
  std::vector<double> seconds = {};

  double Quantile(double q) {
    const auto at =
        seconds.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(seconds.size() - 1));
    std::nth_element(seconds.begin(), at, seconds.end());
    return *at;
  }
};

absl::Status Run(const Options& options) {
  WEIR_ASSIGN_OR_RETURN(const auto cluster, LoopbackCluster::Start(1));
  WEIR_ASSIGN_OR_RETURN(PlainTcp tcp, PlainTcp::Connect(cluster->peer_tcp()));
  WEIR_ASSIGN_OR_RETURN(const auto job, BenchJob::Create(cluster->coordinator(), "latency", 1));
  const auto stub = v1::ParameterService::NewStub(
      grpc::CreateChannel(cluster->peer_grpc(), grpc::InsecureChannelCredentials()));

  Kind kinds[] = {{"push-pull of one element", [&] { return job->PushPull(); }},
                  {"pull of one element", [&] { return job->Pull(); }},
                  {"empty gRPC call", [&] { return EmptyCall(*stub); }},
                  {"plain TCP round trip", [&] { return Transfer(tcp, {}, {}); }}};
  for (int turn = 0; turn < options.turns; ++turn) {
    for (Kind& kind : kinds) {
      WEIR_RETURN_IF_ERROR(kind.call());  // the change of partner is not counted
      for (int i = 0; i < options.calls; ++i) {
        const Stopwatch stopwatch;
        WEIR_RETURN_IF_ERROR(kind.call());
        kind.seconds.push_back(stopwatch.seconds());
      }
    }
  }
  std::printf("| call | p50 us | p90 us | p99 us |\n| --- | ---: | ---: | ---: |\n");
  for (Kind& kind : kinds) {
    std::printf("| %s | %.0f | %.0f | %.0f |\n", kind.name, kind.Quantile(0.5) * 1e6,
                kind.Quantile(0.9) * 1e6, kind.Quantile(0.99) * 1e6);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  weir::KeepFreedMemory();
  weir::bench::Options options;
  CLI::App app("Small calls over loopback");
  app.add_option("--turns", options.turns)->capture_default_str();
  app.add_option("--calls", options.calls)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = weir::bench::Run(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "latency_bench: %s\n", status.ToString().c_str());
  return 1;
}
