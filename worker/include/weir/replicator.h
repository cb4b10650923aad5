// SPDX-License-Identifier: Apache-2.0
// The loop over steps, for those who write it themselves. C++17; no protobuf, no gRPC.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "weir/input.h"
#include "weir/nest.h"
#include "weir/reduce.h"
#include "weir/replica.h"
#include "weir/replica_class.h"

namespace weir {

// The replicas of this process, without their type. Used from one thread, the loop's.
class ReplicatorBase {
 public:
  explicit ReplicatorBase(ReplicaLoop& loop) : loop_(loop) {}

  // False: the job is done, is to stop, or has failed, which the framework reports. What is due
  // between steps happens here: evaluations, checkpoints.
  bool Next();

  // Shows what a step returned: every named scalar, averaged over the replicas by their weights.
  // Steps that are not logged count all the same.
  void Log(const absl::StatusOr<std::vector<Nest>>& outputs);

  // Collectives between steps, over all replicas in sync, on one nest for each local replica. All
  // processes call the same ones in the same order. Where a worker leaves in the middle of one they
  // are made again without it. Errors: those of StepContext's.
  absl::StatusOr<Nest> Reduce(const std::vector<Nest>& values, ReduceOp op,
                              const std::string& name = "");
  absl::StatusOr<Nest> Broadcast(const std::vector<Nest>& values, uint32_t source = 0,
                                 const std::string& name = "");

  uint64_t step() const;  // of the job: the next to run
  uint32_t num_replicas_in_sync() const;
  uint32_t num_local_replicas() const;

 protected:
  using StepFunction = std::function<Nest(Replica&, StepContext&, const Nest&)>;

  absl::StatusOr<std::vector<Nest>> RunStep(const StepFunction& function);

 private:
  ReplicaLoop& loop_;
};

// The replicas of this process. `static void Loop(Replicator<R>&)` of a replica class R takes the
// place of
//   while (r.Next()) r.Log(r.Run(&R::Train));
// It is entered anew, with the weights of the resume point, where the job goes back to a
// checkpoint. Used from one thread.
template <typename R>
class Replicator : public ReplicatorBase {
 public:
  using ReplicatorBase::ReplicatorBase;

  // One step of the job, on all replicas at once, each with its part of the batch: a member
  // function `Nest Step(StepContext&, const Nest& input)` of R or of its base, or a callable
  // `Nest(R&, StepContext&, const Nest&)`. Gives one output for each local replica, in the order of
  // ids. Errors: OutOfRange - the job's length has been reached, nothing was done; else it sticks,
  // and names replica and operation.
  template <typename Function>
  absl::StatusOr<std::vector<Nest>> Run(Function step) {
    return RunStep([step](Replica& replica, StepContext& context, const Nest& input) {
      return std::invoke(step, static_cast<R&>(replica), context, input);
    });
  }
};

namespace internal {

template <typename R, typename = void>
struct HasLoop : std::false_type {};
template <typename R>
struct HasLoop<R, std::void_t<decltype(R::Loop(std::declval<Replicator<R>&>()))>> : std::true_type {
};

template <typename R, typename = void>
struct NamesMakeInput : std::false_type {};
template <typename R>
struct NamesMakeInput<R, std::void_t<decltype(&R::MakeInput)>> : std::true_type {};
template <typename R, typename = void>
struct HasPipelines : std::false_type {};
template <typename R>
struct HasPipelines<
    R, std::enable_if_t<std::is_convertible_v<decltype(R::kInputPipelines), InputPipelines>>>
    : std::true_type {};
template <typename R, typename = void>
struct HasMakeInput : std::false_type {};
template <typename R>
struct HasMakeInput<R, std::enable_if_t<std::is_convertible_v<
                           decltype(R::MakeInput(std::declval<const InputContext&>())), Input>>>
    : std::true_type {};

}  // namespace internal

// Of a class derived from Replica, with a constructor from ReplicaContext&, and, where it has them,
// `static void Loop(Replicator<R>&)`, `static Input MakeInput(const InputContext&)` and
// `static constexpr InputPipelines kInputPipelines`.
template <typename R>
ReplicaClass ReplicaClassOf() {
  ReplicaClass replica_class;
  replica_class.create = [](ReplicaContext& context) { return std::make_unique<R>(context); };
  if constexpr (internal::HasLoop<R>::value) {
    replica_class.loop = [](ReplicaLoop& loop) {
      Replicator<R> replicator(loop);
      R::Loop(replicator);
    };
  }
  static_assert(internal::HasMakeInput<R>::value || !internal::NamesMakeInput<R>::value,
                "MakeInput is to be `static weir::Input MakeInput(const weir::InputContext&)`");
  if constexpr (internal::HasMakeInput<R>::value) {
    replica_class.make_input = [](const InputContext& context) -> Input {
      return R::MakeInput(context);
    };
  }
  if constexpr (internal::HasPipelines<R>::value) replica_class.pipelines = R::kInputPipelines;
  return replica_class;
}

}  // namespace weir
