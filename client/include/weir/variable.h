// SPDX-License-Identifier: Apache-2.0
// What a job declares, in plain C++: see also docs/glossary.md. C++17.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace weir {

enum class DType { kFloat32 = 1, kFloat64 = 2, kInt32 = 3, kInt64 = 4, kBool = 5 };

// Bytes of one element.
size_t SizeOf(DType dtype);

// How values of a state variable that differ between workers become one.
enum class Aggregation {
  kDefault = 0,  // kMean for floating point, kMax for integers and bool
  kMean = 1,     // weighted; refused for integers and bool
  kSum = 2,
  kMin = 3,
  kMax = 4,
  kFirst = 5,  // of the lowest live rank
  kLastWrite = 6,
};

// A named dense tensor.
struct VariableSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<uint64_t> shape;  // empty: a scalar; a zero anywhere: no elements, legal
  uint32_t group = 1;           // index of its optimizer group plus one; 0: state, no optimizer
  Aggregation aggregation = Aggregation::kDefault;  // of state

  uint64_t elements() const;
};

// The learning rate over the examples applied so far; formulas in proto/weir/v1/variables.proto.
struct Schedule {
  double base = 0.01;
  uint64_t warm_up_examples = 0;
  struct Step {
    std::vector<uint64_t> boundary_examples;
    double factor = 0.1;
  };
  struct Cosine {
    uint64_t total_examples = 0;
    double final_rate = 0;
  };
  struct Linear {
    uint64_t total_examples = 0;
    double final_rate = 0;
  };
  std::variant<std::monostate, Step, Cosine, Linear> shape;  // monostate: constant
};

// Options and update rules are those of LibTorch's optimizers of the same names.
struct Sgd {
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};
struct Adagrad {
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
};
struct RmsProp {
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
};
struct Adam {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
};
struct AdamW {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
};

// No optimizer: what is pushed are values that workers have computed, and not gradients.
// value = decay * value + (1 - decay) * pushed.
struct Average {
  double decay = 0;
};

struct OptimizerGroup {
  std::string name;
  Schedule learning_rate;
  std::variant<Sgd, Adagrad, RmsProp, Adam, AdamW, Average> optimizer;
};

struct Declaration {
  std::vector<VariableSpec> variables;
  std::vector<OptimizerGroup> groups;
};

}  // namespace weir
