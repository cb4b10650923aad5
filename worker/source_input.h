// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "common/clock.h"
#include "worker/worker_input.h"

namespace weir {

// Batches that wait for their step, made by threads of its own. Used from one thread.
class SourcePipeline {
 public:
  struct Options {
    uint32_t prefetch = 1;  // batches that wait at most; 0: none is made before it is asked for
    uint32_t threads = 1;   // that call the source
    bool ordered = false;   // with several threads: batches come in the order of the calls
    absl::Duration patience = absl::Seconds(10);  // with a source that was told to stop
    const Clock* clock = nullptr;                 // for the patience; must outlive the pipeline
  };

  SourcePipeline(std::shared_ptr<BatchSource> source, const Options& options);
  // Tells the source to stop, and waits for its threads; leaves those behind, with a word in the
  // log, that do not come back within the patience.
  ~SourcePipeline();

  // Errors: OutOfRange - the source has ended, and all of its batches are taken; that of `go_on`;
  // that of the source.
  absl::StatusOr<ReplicaBatch> Take(const std::function<absl::Status()>& go_on);

 private:
  struct State;

  static void Call(State& state, BatchSource& source);

  const Options options_;
  const std::shared_ptr<BatchSource> source_;  // shared with a thread that was left behind
  const std::shared_ptr<State> state_;         // the same
};

// Input from callables. A replica's batches are its pipeline's, in turn with the other replicas
// that share it. What the step's slice says is not looked at. Used from
// one thread.
class SourceInput final : public WorkerInput {
 public:
  // One for each pipeline of `place`.
  SourceInput(std::vector<std::unique_ptr<SourcePipeline>> pipelines, const PipelinePlace& place)
      : place_(place), pipelines_(std::move(pipelines)) {}

  absl::StatusOr<std::vector<ReplicaBatch>> Take(const InputRequest& request) override;

 private:
  const PipelinePlace place_;
  std::vector<std::unique_ptr<SourcePipeline>> pipelines_;
};

}  // namespace weir
