// SPDX-License-Identifier: Apache-2.0
// Where a replica class's batches come from, other than the job file's images. C++17; no protobuf,
// no gRPC.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weir/nest.h"
#include "weir/options.h"
#include "weir/stop_token.h"

namespace weir {

enum class Split { kTrain, kEvaluation };

// What `static weir::Input MakeInput(const weir::InputContext&)` of a replica class is told. It is
// called once for each input pipeline of the worker, one after another, when the worker has joined
// its job; and, where that gave a dataset, once more for the evaluation.
struct InputParts {
  Options options;
  uint32_t pipeline_id = 0;
  uint32_t num_pipelines = 1;
  int64_t per_replica_batch = 0;
  uint64_t seed = 0;
  Split split = Split::kTrain;
};
class InputContext {  // immutable, thread-safe
 public:
  explicit InputContext(InputParts parts) : parts_(std::move(parts)) {}

  const Options& options() const { return parts_.options; }  // of the job's model
  uint32_t pipeline_id() const { return parts_.pipeline_id; }
  uint32_t num_pipelines() const { return parts_.num_pipelines; }  // of the whole job
  // What the job file's `data.batch` comes to, rounded down; `fallback`, where the job has none.
  int64_t PerReplicaBatch(int64_t fallback) const {
    return parts_.per_replica_batch > 0 ? parts_.per_replica_batch : fallback;
  }
  uint64_t seed() const { return parts_.seed; }
  Split split() const { return parts_.split; }

 private:
  InputParts parts_;
};

// Examples by number. Thread-compatible. What it throws ends the worker,
// with its message.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual uint64_t Size() const = 0;
  // Every tensor's first dimension is that of `indices`, of which there is one at least.
  virtual Nest Get(const std::vector<uint64_t>& indices) = 0;
};

struct DatasetOptions {
  uint32_t prefetch = 0;  // steps that a thread reads ahead; 0: read between the steps
  // FromDataset: what torch::data::Example's tensors are called.
  std::string data = "data";
  std::string target = "target";
};

// Gives one replica's next batch, or none: it has ended. May block until the token says stop; what
// it returns then is not looked at. What it throws ends the worker, with its message.
using SourceFunction = std::function<std::optional<Nest>(StopToken)>;

struct SourceOptions {
  SourceOptions() = default;
  SourceOptions(uint32_t batches) : prefetch(batches) {}

  uint32_t prefetch = 1;  // batches that wait at most; 0: the callable is called when one is needed
  uint32_t threads = 1;   // that call it; several: it is thread-safe
  bool ordered = false;   // with several: batches come in the order in which the calls began
};

// What MakeInput returns. A handle, cheap to copy. Thread-compatible.
class Input {
 public:
  Input() = default;  // none: of an evaluation, which is left out then
  Input(std::shared_ptr<Dataset> dataset, DatasetOptions options)
      : dataset_(std::move(dataset)), dataset_options_(std::move(options)) {}
  Input(SourceFunction source, SourceOptions options)
      : source_(std::move(source)), source_options_(options) {}

  const std::shared_ptr<Dataset>& dataset() const { return dataset_; }
  const DatasetOptions& dataset_options() const { return dataset_options_; }
  const SourceFunction& source() const { return source_; }
  const SourceOptions& source_options() const { return source_options_; }

 private:
  std::shared_ptr<Dataset> dataset_;
  DatasetOptions dataset_options_;
  SourceFunction source_;
  SourceOptions source_options_;
};

// A *source*: a callable `Nest(StopToken)` or `std::optional<Nest>(StopToken)`. Threads of its own
// call it ahead of the steps. It owns its position: Weir hands it no part of any data, and after a
// restart it begins anew.
inline Input FromCallable(SourceFunction function, SourceOptions options = {}) {
  return Input(std::move(function), options);
}

// A dataset of one's own: random access.
inline Input FromDataset(std::shared_ptr<Dataset> dataset, DatasetOptions options = {}) {
  return Input(std::move(dataset), std::move(options));
}

}  // namespace weir
