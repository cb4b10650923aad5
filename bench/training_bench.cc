// SPDX-License-Identifier: Apache-2.0
// Training samples per second: weir-worker --local, and one weir-worker on a cluster of one server
// over loopback, beside a plain LibTorch loop (training_plain) on the same model, batch and number
// of steps. The three take turns, each in a process of its own with one computing thread. Prints a
// table in Markdown.
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "bench/child_run.h"
#include "bench/loopback_cluster.h"
#include "bench/statistics.h"
#include "common/status_macros.h"

namespace weir::bench {
namespace {

constexpr uint32_t kSide = 28;
constexpr absl::Duration kTimeout = absl::Minutes(10);

struct Workload {
  std::string name;
  std::string plain_model;
  std::string job_model;
  int batch;
  int steps;
};

const Workload kWorkloads[] = {
    {"MLP 784-1024-1024-10", "mlp", "{builtin: mlp, options: {hidden: [1024, 1024]}}", 64, 300},
    {"MLP 784-1024-1024-10", "mlp", "{builtin: mlp, options: {hidden: [1024, 1024]}}", 512, 100},
    {"ResNet-8, width 16", "resnet", "{builtin: resnet, options: {depth: 8, width: 16}}", 64, 50},
};

void WriteBigEndian(std::ofstream& file, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) file.put(static_cast<char>(value >> shift & 0xff));
}

// Random images and labels: their speed does not depend on what they show.
void WriteIdx(const std::string& folder, const std::string& set, uint32_t examples) {
  std::mt19937 random(1);
  std::ofstream images(absl::StrCat(folder, "/", set, "-images-idx3-ubyte"), std::ios::binary);
  for (const uint32_t word : {0x803u, examples, kSide, kSide}) WriteBigEndian(images, word);
  for (uint32_t i = 0; i < examples * kSide * kSide; ++i) images.put(static_cast<char>(random()));
  std::ofstream labels(absl::StrCat(folder, "/", set, "-labels-idx1-ubyte"), std::ios::binary);
  for (const uint32_t word : {0x801u, examples}) WriteBigEndian(labels, word);
  for (uint32_t i = 0; i < examples; ++i) labels.put(static_cast<char>(i % 10));
}

class TrainingBench {
 public:
  // `steps`: of each run; 0: as the workload has them.
  TrainingBench(std::string folder, int turns, int steps, LoopbackCluster& cluster)
      : folder_(std::move(folder)), turns_(turns), steps_(steps), cluster_(cluster) {
    WriteIdx(folder_, "train", 8192);
    WriteIdx(folder_, "test", 64);
  }

  absl::Status RunAll() {
    std::printf(
        "| model | batch | plain samples/s | local samples/s | of plain | "
        "remote samples/s | of plain |\n");
    std::printf("| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    for (Workload workload : kWorkloads) {
      if (steps_ > 0) workload.steps = steps_;
      WEIR_RETURN_IF_ERROR(Run(workload));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Run(const Workload& workload) {
    Alternation local;
    Alternation remote;
    for (int turn = 0; turn < turns_; ++turn) {
      WEIR_ASSIGN_OR_RETURN(const double plain_rate, Plain(workload));
      WEIR_ASSIGN_OR_RETURN(const double local_rate, Worker(workload, {"--local"}));
      WEIR_ASSIGN_OR_RETURN(const double remote_rate,
                            Worker(workload, {"--coordinator", cluster_.coordinator()}));
      local.Add(1 / local_rate, 1 / plain_rate);
      remote.Add(1 / remote_rate, 1 / plain_rate);
    }
    std::printf("| %s | %d | %.0f | %.0f | %.2f | %.0f | %.2f |\n", workload.name.c_str(),
                workload.batch, 1 / local.limit_seconds(), 1 / local.ours_seconds(),
                local.of_limit(), 1 / remote.ours_seconds(), remote.of_limit());
    std::fflush(stdout);
    return absl::OkStatus();
  }

  absl::StatusOr<double> Plain(const Workload& workload) {
    WEIR_ASSIGN_OR_RETURN(
        const std::vector<std::string> lines,
        RunToEnd("training_plain",
                 {"--model", workload.plain_model, "--batch", absl::StrCat(workload.batch),
                  "--steps", absl::StrCat(workload.steps)},
                 kTimeout));
    for (absl::string_view line : lines) {
      double rate = 0;
      if (absl::ConsumePrefix(&line, "samples_per_second=") && absl::SimpleAtod(line, &rate)) {
        return rate;
      }
    }
    return absl::InternalError("training_plain printed no rate");
  }

  absl::StatusOr<double> Worker(const Workload& workload, std::vector<std::string> arguments) {
    const std::string name = absl::StrCat("training-", ++runs_);
    const std::string run_folder = absl::StrCat(folder_, "/", name);
    const std::string job = run_folder + ".yaml";
    std::ofstream(job) << "name: " << name << "\nmodel: " << workload.job_model
                       << "\ndata: {train: train-images-idx3-ubyte, test: test-images-idx3-ubyte, "
                       << "batch: {global: " << workload.batch << "}}\nsteps: " << workload.steps
                       << "\noptimizers: {sgd: {learning_rate: 0.001, momentum: 0.9}}\n"
                       << "checkpoint: {at_end: false}\n";
    arguments.insert(arguments.end(), {"--job", job, "--run-dir", run_folder});
    WEIR_RETURN_IF_ERROR(RunToEnd("weir-worker", std::move(arguments), kTimeout).status());
    std::ifstream file(run_folder + "/summary.json");
    const auto summary = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    if (!summary.contains("samples_per_second")) {
      return absl::InternalError(absl::StrCat(run_folder, "/summary.json has no rate"));
    }
    return summary["samples_per_second"].get<double>();
  }

  const std::string folder_;
  const int turns_;
  const int steps_;
  LoopbackCluster& cluster_;
  int runs_ = 0;
};

absl::Status Run(int turns, int steps) {
  WEIR_ASSIGN_OR_RETURN(const auto cluster, LoopbackCluster::Start(1));
  return TrainingBench(cluster->folder(), turns, steps, *cluster).RunAll();
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  int turns = 5;
  int steps = 0;
  CLI::App app("Training beside a plain LibTorch loop");
  app.add_option("--turns", turns)->capture_default_str();
  app.add_option("--steps", steps, "Of each run; 0: as the workload has them")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  // The same for all: one computing thread, and none that spins.
  for (const auto& [name, value] :
       {std::pair("OMP_NUM_THREADS", "1"), std::pair("OPENBLAS_NUM_THREADS", "1"),
        std::pair("OMP_WAIT_POLICY", "PASSIVE"), std::pair("GOMP_SPINCOUNT", "0")}) {
    setenv(name, value, 1);
  }
  const absl::Status status = weir::bench::Run(turns, steps);
  if (status.ok()) return 0;
  std::fprintf(stderr, "training_bench: %s\n", status.ToString().c_str());
  return 1;
}
