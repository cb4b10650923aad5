// SPDX-License-Identifier: Apache-2.0
// C++17; no LibTorch, no protobuf, no gRPC.
#pragma once

#include <functional>
#include <memory>

namespace weir {

class Input;
class InputContext;
class Replica;
class ReplicaContext;
class ReplicaLoop;

// For how many replicas MakeInput is called once.
enum class InputPipelines {
  kPerWorker,   // those of a process, which take its batches in turn
  kPerReplica,  // one
  kSingle,      // all: for jobs of one worker
};

using ReplicaFactory = std::function<std::unique_ptr<Replica>(ReplicaContext&)>;

// A class of replicas, without its type.
struct ReplicaClass {
  ReplicaFactory create;
  std::function<void(ReplicaLoop&)> loop;                          // null: Train over and over
  std::function<Input(const InputContext&)> make_input = nullptr;  // null: the job file's images
  InputPipelines pipelines = InputPipelines::kPerWorker;           // of make_input
};

}  // namespace weir
