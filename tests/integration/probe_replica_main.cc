// SPDX-License-Identifier: Apache-2.0
// probe-replica: a program of replicas for tests of several processes. What a step does is the
// model's option `step`.
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <csignal>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/support/lamb.h"
#include "weir/run.h"

namespace {

struct CountImpl : torch::nn::Module {
  CountImpl() : value(register_parameter("value", torch::zeros({1}))) {}
  torch::Tensor value;
};
TORCH_MODULE(Count);

void Expect(bool holds, const char* claim) {
  if (!holds) throw std::runtime_error(std::string("not so: ") + claim);
}

// Its process is killed in the middle of a step: all know the step's gradients, and nobody's values
// have been told to the servers.
struct MortalLamb : weir::Lamb {
  using Lamb::Lamb;
  torch::Tensor step(LossClosure closure = nullptr) override {
    if (dies) std::raise(SIGKILL);
    return Lamb::step(std::move(closure));
  }
  bool dies = false;
};

struct Probe : weir::Replica {
  explicit Probe(weir::ReplicaContext& context)
      : step(context.options().Get("step", std::string())),
        often(context.Add("often", Count())),
        seldom(context.Add("seldom", Count())),
        dies_in(context.options().Get("dies_in", int64_t{-1})),
        first(context.WrapOptimizer("first", often->parameters(), torch::optim::SGDOptions(1))),
        second(context.WrapOptimizer("second", seldom->parameters(), torch::optim::SGDOptions(1))) {
    if (step != "lamb") return;
    net = context.Add("net", torch::nn::Linear(64, 4));
    lamb = context.WrapOptimizer("lamb", std::make_unique<MortalLamb>(net->parameters()));
  }

  weir::Nest Train(weir::StepContext& context, const weir::Nest& batch) override {
    static const std::map<std::string, void (Probe::*)(weir::StepContext&, const weir::Nest&)>
        kSteps = {{"five-to-one", &Probe::FiveToOne},   {"in-turns", &Probe::InTurns},
                  {"collectives", &Probe::Collectives}, {"mismatch", &Probe::Mismatch},
                  {"dropout", &Probe::Dropout},         {"lamb", &Probe::OfLamb}};
    (this->*kSteps.at(step))(context, batch);
    return {};
  }

  // Of rate 1 and gradient 1: the parameter counts the optimizer's updates, downwards.
  static void Update(Count& count, weir::Optimizer& optimizer) {
    count->value.sum().backward();
    optimizer.Step();
  }

  void FiveToOne(weir::StepContext&, const weir::Nest&) {
    for (int i = 0; i < 5; ++i) Update(often, first);
    Update(seldom, second);
  }

  // Like a loop that runs five steps of one kind and one of the other.
  void InTurns(weir::StepContext& context, const weir::Nest&) {
    context.step() % 6 < 5 ? Update(often, first) : Update(seldom, second);
  }

  // Each replica brings its id, with the weight id + 1; all know what must come of it.
  void Collectives(weir::StepContext& context, const weir::Nest&) {
    const int64_t id = context.replica_id();
    context.SetWeight(static_cast<double>(id + 1));
    const torch::Tensor mine = torch::tensor({static_cast<double>(id)}, torch::kFloat64);
    const torch::Tensor ids = context.AllGather(mine, "ids").flatten();
    Expect(ids.size(0) == context.num_replicas_in_sync(), "all in sync are gathered");
    if (ids.size(0) == 4) Expect(ids.equal(torch::arange(4, torch::kFloat64)), "ids are 0 to 3");
    using weir::ReduceOp;
    const auto gives = [&](ReduceOp op, const torch::Tensor& expected) {
      return torch::allclose(context.AllReduce(mine, op).squeeze(), expected);
    };
    Expect(gives(ReduceOp::kSum, ids.sum()), "SUM");
    Expect(gives(ReduceOp::kMean, (ids * (ids + 1)).sum() / (ids + 1).sum()), "MEAN");
    Expect(gives(ReduceOp::kMin, ids.min()), "MIN");
    Expect(gives(ReduceOp::kMax, ids.max()), "MAX");
    Expect(gives(ReduceOp::kFirst, ids[0]), "FIRST");
    const auto last = static_cast<uint32_t>(ids.size(0) - 1);
    Expect(context.Broadcast(mine, last).equal(ids.slice(0, -1)), "Broadcast");
    // Of several messages.
    const torch::Tensor large = torch::full({1000, 1000}, static_cast<float>(id));
    Expect(context.AllReduce(large, ReduceOp::kSum, "large").eq(ids.sum()).all().item<bool>(),
           "SUM of a large tensor");
    const torch::Tensor items = torch::arange(10);
    const weir::Nest squares = context.MapGather(
        items, [](const weir::Nest& part) { return weir::Nest(part.tensor().square()); });
    Expect(squares.tensor().equal(items.square()), "MapGather");
    Update(often, first);
    Update(seldom, second);
  }

  // In step 2 the replicas of rank 1 call something else. Each tells what it is told.
  void Mismatch(weir::StepContext& context, const weir::Nest&) {
    try {
      if (context.step() == 2 && context.replica_id() >= 2) {
        context.AllGather(torch::zeros({1}, torch::kInt64), "hits");
      } else {
        context.AllReduce(torch::zeros({3}), weir::ReduceOp::kSum, "loss");
      }
    } catch (const weir::StepError& error) {
      std::printf("replica %u: %s\n", context.replica_id(), error.what());
      std::fflush(stdout);
      throw;
    }
    Update(often, first);
    Update(seldom, second);
  }

  // The gradient is a sum over what is left of the batch.
  void Dropout(weir::StepContext&, const weir::Nest& batch) {
    for (int i = 0; i < 2; ++i) {
      const torch::Tensor kept = torch::dropout(batch["image"].flatten(1), 0.5, /*train=*/true);
      (often->value * kept.sum(1)).mean().backward();
      first.Step();
    }
    Update(seldom, second);
  }

  // Each replica sees before its step that the others hold the same weights, bit for bit, and after
  // it again, when what the optimizer keeps has had its say.
  void OfLamb(weir::StepContext& context, const weir::Nest& batch) {
    const auto expect_equal = [&] {
      const torch::Tensor all = context.AllGather(net->weight.detach(), "weights");
      Expect(all.eq(all[0]).all().item<bool>(), "all replicas hold the same weights");
    };
    expect_equal();
    const torch::Tensor scores = net(batch["image"].flatten(1));
    torch::cross_entropy_loss(scores, batch["label"]).backward();
    static_cast<MortalLamb&>(lamb.local()).dies =
        context.replica_id() == 0 && static_cast<int64_t>(context.step()) == dies_in;
    lamb.Step();
    expect_equal();
    Update(often, first);
    Update(seldom, second);
  }

  const std::string step;
  torch::nn::Linear net{nullptr};
  weir::Optimizer lamb;
  Count often, seldom;
  const int64_t dies_in;  // the step; of "lamb"
  weir::Optimizer first, second;
};

}  // namespace

int main(int argc, char** argv) {
  return weir::Run<Probe>(argc, argv);
}
