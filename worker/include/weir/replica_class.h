// SPDX-License-Identifier: Apache-2.0
// C++17; no LibTorch, no protobuf, no gRPC.
#pragma once

#include <functional>
#include <memory>

namespace weir {

class Replica;
class ReplicaContext;
class ReplicaLoop;

using ReplicaFactory = std::function<std::unique_ptr<Replica>(ReplicaContext&)>;

// A class of replicas, without its type.
struct ReplicaClass {
  ReplicaFactory create;
  std::function<void(ReplicaLoop&)> loop;  // null: Train over and over
};

}  // namespace weir
