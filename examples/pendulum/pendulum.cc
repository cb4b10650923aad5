// SPDX-License-Identifier: Apache-2.0
// Reinforcement learning: a learner whose input is a replay that actors in other processes feed
// (pendulum_actor.cc). Deep Q-learning with a target network (Mnih et al., 2015) and double
// estimation (van Hasselt et al., 2016).
//
//   pendulum --job pendulum.yaml --coordinator HOST:PORT       one or more
//   pendulum_actor HOST:PORT pendulum FOLDER                   one or more; FOLDER as in the job
//   file
#include "examples/pendulum/pendulum.h"

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <memory>

#include "examples/pendulum/replay.h"
#include "weir/run.h"

namespace {

using pendulum::Transition;
using torch::nn::Linear;

torch::nn::Sequential Network() {
  return torch::nn::Sequential(Linear(pendulum::kObservation, pendulum::kHidden), torch::nn::ReLU(),
                               Linear(pendulum::kHidden, pendulum::kHidden), torch::nn::ReLU(),
                               Linear(pendulum::kHidden, pendulum::kActions));
}

weir::Nest BatchOf(const std::vector<Transition>& transitions) {
  const auto count = static_cast<int64_t>(transitions.size());
  const auto columns = static_cast<int64_t>(sizeof(Transition) / sizeof(float));
  const torch::Tensor rows =
      torch::from_blob(const_cast<Transition*>(transitions.data()), {count, columns}).clone();
  const int64_t o = pendulum::kObservation;
  return {{"before", rows.slice(1, 0, o)},
          {"action", rows.slice(1, o, o + 1).to(torch::kInt64)},
          {"reward", rows.slice(1, o + 1, o + 2)},
          {"after", rows.slice(1, o + 2)}};
}

struct Learner : weir::Replica {
  explicit Learner(weir::ReplicaContext& context)
      : q(context.Add("q", Network())),
        // The servers keep it, the same for all learners.
        target(context.AddTarget("target", Network(), q, {.every = 100})),
        adam(context.WrapOptimizer("adam", q->parameters(), torch::optim::AdamOptions(1e-3))) {}

  static weir::Input MakeInput(const weir::InputContext& context) {
    auto replay = std::make_shared<pendulum::Replay>(
        context.options().Get("replay", std::string("/tmp")), context.pipeline_id(),
        static_cast<unsigned>(context.seed() + context.pipeline_id()));
    return weir::FromCallable(
        [replay, n = context.PerReplicaBatch(64)](weir::StopToken stop) {
          return BatchOf(replay->Sample(static_cast<size_t>(n), stop));
        },
        /*prefetch=*/2);
  }

  weir::Nest Train(weir::StepContext&, const weir::Nest& batch) override {
    torch::Tensor goal;
    {
      const torch::NoGradGuard no_gradients;
      const torch::Tensor best = q->forward(batch["after"]).argmax(1, /*keepdim=*/true);
      goal = batch["reward"] / 10 + kDiscount * target->forward(batch["after"]).gather(1, best);
    }
    const torch::Tensor value = q->forward(batch["before"]).gather(1, batch["action"]);
    const torch::Tensor loss = torch::nn::functional::smooth_l1_loss(value, goal);
    adam.ZeroGrad();
    loss.backward();
    adam.Step();
    return {{"loss", loss.detach()}, {"value", value.detach().mean()}};
  }

  static constexpr double kDiscount = 0.98;

  torch::nn::Sequential q, target;
  weir::Optimizer adam;
};

}  // namespace

int main(int argc, char** argv) {
  return weir::Run<Learner>(argc, argv);
}
