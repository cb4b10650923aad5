// SPDX-License-Identifier: Apache-2.0
// probe-replica: a program of replicas for tests of several processes. What a step does is the
// model's option `step`.
#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <string>

#include "weir/run.h"

namespace {

struct CountImpl : torch::nn::Module {
  CountImpl() : value(register_parameter("value", torch::zeros({1}))) {}
  torch::Tensor value;
};
TORCH_MODULE(Count);

struct Probe : weir::Replica {
  explicit Probe(weir::ReplicaContext& context)
      : step(context.options().Get("step", std::string())),
        often(context.Add("often", Count())),
        seldom(context.Add("seldom", Count())),
        first(context.WrapOptimizer("first", often->parameters(), torch::optim::SGDOptions(1))),
        second(context.WrapOptimizer("second", seldom->parameters(), torch::optim::SGDOptions(1))) {
  }

  weir::Nest Train(weir::StepContext& context, const weir::Nest&) override {
    static const std::map<std::string, void (Probe::*)(weir::StepContext&)> kSteps = {
        {"five-to-one", &Probe::FiveToOne}, {"in-turns", &Probe::InTurns}};
    (this->*kSteps.at(step))(context);
    return {};
  }

  // Of rate 1 and gradient 1: the parameter counts the optimizer's updates, downwards.
  static void Update(Count& count, weir::Optimizer& optimizer) {
    count->value.sum().backward();
    optimizer.Step();
  }

  void FiveToOne(weir::StepContext&) {
    for (int i = 0; i < 5; ++i) Update(often, first);
    Update(seldom, second);
  }

  // Like a loop that runs five steps of one kind and one of the other.
  void InTurns(weir::StepContext& context) {
    context.step() % 6 < 5 ? Update(often, first) : Update(seldom, second);
  }

  const std::string step;
  Count often, seldom;
  weir::Optimizer first, second;
};

}  // namespace

int main(int argc, char** argv) {
  return weir::Run<Probe>(argc, argv);
}
