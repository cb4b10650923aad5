// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/replica_parts.h"
#include "worker/torch_dtype.h"

namespace weir {
namespace {

[[noreturn]] void Refuse(const std::string& message) {
  throw StepError(absl::InvalidArgumentError(message));
}

std::vector<torch::Tensor>::iterator Find(ReplicaParts& parts, const torch::Tensor& tensor) {
  return std::find_if(parts.tensors.begin(), parts.tensors.end(),
                      [&](const torch::Tensor& known) { return known.is_same(tensor); });
}

void AddVariable(ReplicaParts& parts, const std::string& name, const torch::Tensor& tensor,
                 Aggregation aggregation) {
  // Tied: one tensor under two names is one variable, under the first.
  if (!tensor.defined() || Find(parts, tensor) != parts.tensors.end()) return;
  for (size_t i = 0; i < parts.tensors.size(); ++i) {
    if (tensor.numel() == 0 || !parts.tensors[i].is_alias_of(tensor)) continue;
    Refuse(absl::StrCat(name, " shares memory with ", parts.declaration.variables[i].name,
                        " but is another tensor: tie them by registering the same one"));
  }
  VariableSpec variable;
  variable.name = name;
  variable.dtype = DTypeOf(absl::StrCat("variable ", name), tensor.scalar_type());
  for (const int64_t size : tensor.sizes()) variable.shape.push_back(static_cast<uint64_t>(size));
  variable.group = 0;  // state, until an optimizer takes it
  variable.aggregation = aggregation;
  parts.declaration.variables.push_back(variable);
  parts.tensors.push_back(tensor);
}

template <typename Kind>
Optimizer Wrap(ReplicaParts& parts, const std::string& name,
               const std::vector<torch::Tensor>& parameters, double rate, const Kind& kind) {
  OptimizerGroup group;
  group.name = name;
  group.learning_rate.base = rate;
  group.optimizer = kind;
  const auto from_job = parts.job_optimizers.find(name);
  if (from_job != parts.job_optimizers.end()) group = from_job->second;
  for (const OptimizerGroup& known : parts.declaration.groups) {
    if (known.name == name) Refuse(absl::StrCat("there is an optimizer \"", name, "\" already"));
  }
  parts.declaration.groups.push_back(group);
  auto link = std::make_shared<OptimizerLink>();
  link->name = name;
  link->step = &parts.step;
  link->group = static_cast<uint32_t>(parts.declaration.groups.size());
  for (const torch::Tensor& parameter : parameters) {
    const auto found = Find(parts, parameter);
    if (found == parts.tensors.end()) {
      Refuse(absl::StrCat("optimizer \"", name, "\": parameter ", link->parameters.size(),
                          " is not part of a module that was added"));
    }
    const size_t index = static_cast<size_t>(found - parts.tensors.begin());
    VariableSpec& variable = parts.declaration.variables[index];
    if (variable.group == link->group) continue;  // tied, given twice
    if (variable.group != 0) Refuse(absl::StrCat(variable.name, " has an optimizer already"));
    if (!parameter.requires_grad()) continue;  // frozen: state, as long as the job lasts
    variable.group = link->group;
    variable.aggregation = Aggregation::kDefault;
    link->parameters.push_back(parameter);
    link->variables.push_back(index);
    link->names.push_back(variable.name);
  }
  parts.links.push_back(link);
  return Optimizer(std::move(link));
}

template <typename Kind>
Kind AdamFrom(double beta1, double beta2, double eps, double weight_decay, bool amsgrad) {
  Kind kind;
  kind.beta1 = beta1;
  kind.beta2 = beta2;
  kind.eps = eps;
  kind.weight_decay = weight_decay;
  kind.amsgrad = amsgrad;
  return kind;
}

}  // namespace

c10::Device DeviceOf(const StepParts& parts, uint32_t logical) {
  const absl::StatusOr<DeviceMap::Device> device = parts.devices.At(parts.replica, logical);
  if (!device.ok()) throw StepError(device.status());
  if (device->cpu) return torch::kCPU;
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(device->index)};
}

torch::Device ReplicaContext::device() const {
  return DeviceOf(parts_.step, 0);
}

torch::Device ReplicaContext::LogicalDevice(uint32_t logical) const {
  return DeviceOf(parts_.step, logical);
}

Nest Replica::Train(StepContext&, const Nest&) {
  throw StepError(absl::UnimplementedError(
      "the replica class has no Train: override it, or give the class a Loop"));
}

Nest Replica::Evaluate(StepContext&, const Nest&) {
  return {};
}

const Options& ReplicaContext::options() const {
  return parts_.options;
}

const ExampleShape& ReplicaContext::example_shape() const {
  return parts_.shape;
}

void ReplicaContext::AddModule(const std::string& name, std::shared_ptr<torch::nn::Module> module,
                               uint32_t logical) {
  if (!parts_.modules.emplace(name, module).second) {
    Refuse(absl::StrCat("there is a module \"", name, "\" already"));
  }
  module->to(LogicalDevice(logical));
  for (const auto& parameter : module->named_parameters()) {
    // As long as no optimizer takes it.
    AddVariable(parts_, absl::StrCat(name, "/", parameter.key()), parameter.value(),
                Aggregation::kFirst);
  }
  for (const auto& buffer : module->named_buffers()) {
    AddVariable(parts_, absl::StrCat(name, "/", buffer.key()), buffer.value(),
                Aggregation::kDefault);
  }
}

Optimizer ReplicaContext::WrapOptimizer(const std::string& name,
                                        const std::vector<torch::Tensor>& parameters,
                                        const torch::optim::SGDOptions& options) {
  Sgd sgd;
  sgd.momentum = options.momentum();
  sgd.dampening = options.dampening();
  sgd.weight_decay = options.weight_decay();
  sgd.nesterov = options.nesterov();
  return Wrap(parts_, name, parameters, options.lr(), sgd);
}

Optimizer ReplicaContext::WrapOptimizer(const std::string& name,
                                        const std::vector<torch::Tensor>& parameters,
                                        const torch::optim::AdamOptions& options) {
  const auto& [beta1, beta2] = options.betas();
  return Wrap(
      parts_, name, parameters, options.lr(),
      AdamFrom<Adam>(beta1, beta2, options.eps(), options.weight_decay(), options.amsgrad()));
}

Optimizer ReplicaContext::WrapOptimizer(const std::string& name,
                                        const std::vector<torch::Tensor>& parameters,
                                        const torch::optim::AdamWOptions& options) {
  const auto& [beta1, beta2] = options.betas();
  return Wrap(
      parts_, name, parameters, options.lr(),
      AdamFrom<AdamW>(beta1, beta2, options.eps(), options.weight_decay(), options.amsgrad()));
}

Optimizer ReplicaContext::WrapOptimizer(const std::string& name,
                                        const std::vector<torch::Tensor>& parameters,
                                        const torch::optim::AdagradOptions& options) {
  Adagrad adagrad;
  adagrad.lr_decay = options.lr_decay();
  adagrad.weight_decay = options.weight_decay();
  adagrad.initial_accumulator_value = options.initial_accumulator_value();
  adagrad.eps = options.eps();
  return Wrap(parts_, name, parameters, options.lr(), adagrad);
}

Optimizer ReplicaContext::WrapOptimizer(const std::string& name,
                                        const std::vector<torch::Tensor>& parameters,
                                        const torch::optim::RMSpropOptions& options) {
  RmsProp rmsprop;
  rmsprop.alpha = options.alpha();
  rmsprop.eps = options.eps();
  rmsprop.weight_decay = options.weight_decay();
  rmsprop.momentum = options.momentum();
  rmsprop.centered = options.centered();
  return Wrap(parts_, name, parameters, options.lr(), rmsprop);
}

Optimizer ReplicaContext::WrapJobOptimizer(const std::vector<torch::Tensor>& parameters) {
  if (parts_.job_optimizers.size() != 1) {
    Refuse(absl::StrCat("a built-in model trains with one optimizer, the job names ",
                        parts_.job_optimizers.size()));
  }
  return Wrap(parts_, parts_.job_optimizers.begin()->first, parameters, 0, Sgd());
}

}  // namespace weir
