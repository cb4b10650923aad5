// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "worker/gradient_clip.h"

namespace weir {

// An optimizer of LibTorch's, or of a user's, that the replicas step themselves. What it keeps for
// its parameters is also in tensors of fixed shapes, which variables can hold. Used from one thread
// at a time.
class LocalOptimizer {
 public:
  // Learns what it keeps by a step on gradients of zero, which is undone. `names`: of the
  // parameters, in the order of ParametersOf. Throws StepError: InvalidArgument - it wants a
  // closure, or keeps something else than tensors and numbers for each parameter.
  LocalOptimizer(const std::string& name, std::unique_ptr<torch::optim::Optimizer> optimizer,
                 const std::vector<std::string>& names);

  // Each once, in the order of the groups; only those that need a gradient.
  static std::vector<torch::Tensor> ParametersOf(const torch::optim::Optimizer& optimizer);

  torch::optim::Optimizer& optimizer() { return *optimizer_; }

  // One step on these gradients, by parameter; those that are undefined are not there.
  void Step(const Gradients& gradients);

  // What it keeps, by name. The tensors stay the same ones.
  const std::map<std::string, torch::Tensor>& kept() const { return kept_; }
  // Writes what it keeps into the tensors. Throws StepError: FailedPrecondition - it keeps other
  // things than after its first step.
  void Save();
  // The tensors have been written: what they say is taken up before the next Step or Save.
  void NoteWritten() { written_ = true; }

 private:
  using Values = std::map<std::string, c10::IValue>;
  // A tensor of a whole or bool type, or a number, is among the numbers.
  struct Entry {
    c10::IValue sample;  // of its type, and of a tensor its shape
    c10::Device device;  // of a tensor, as the next
    c10::MemoryFormat format;
    torch::Tensor tensor;  // undefined: among the numbers
    int64_t first = 0;     // of its numbers
  };
  struct Parameter {
    torch::Tensor tensor;
    std::string name;
    std::unique_ptr<torch::optim::OptimizerParamState> sample;  // null: it keeps nothing
    std::map<std::string, Entry> entries;
    int64_t there = 0;  // among the numbers: 1 - it keeps something now
  };

  std::vector<Values> Read() const;
  void TryStep();
  void Learn();
  void Plan(const std::vector<Values>& values);
  void Write(const std::vector<Values>& values);
  void Load();

  const std::string name_;
  const std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::vector<Parameter> parameters_;
  std::map<std::string, torch::Tensor> kept_;
  torch::Tensor numbers_;  // f64; one of kept_
  bool written_ = false;
};

}  // namespace weir
