// SPDX-License-Identifier: Apache-2.0
#include <fnmatch.h>

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
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

// True: one of the name's parts, between slashes and dots, is like the pattern.
bool Matches(const std::string& pattern, const std::string& name) {
  for (const std::string& part :
       std::vector<std::string>(absl::StrSplit(name, absl::ByAnyChar("/.")))) {
    if (fnmatch(pattern.c_str(), part.c_str(), 0) == 0) return true;
  }
  return false;
}

// The groups that the servers know of one optimizer: its own, and one without weight decay where
// the job wants that for some parameters.
class OptimizerGroups {
 public:
  OptimizerGroups(ReplicaParts& parts, const JobOptimizer& optimizer)
      : parts_(parts), optimizer_(optimizer), matched_(optimizer.no_decay.size()) {
    own_ = Add(optimizer.group);
  }

  // Index in the declaration plus one.
  uint32_t Of(const std::string& parameter) {
    bool decays = true;
    for (size_t i = 0; i < matched_.size(); ++i) {
      if (!Matches(optimizer_.no_decay[i], parameter)) continue;
      matched_[i] = true;
      decays = false;
    }
    if (decays) return own_;
    if (without_decay_ == 0) {
      OptimizerGroup group = optimizer_.group;
      absl::StrAppend(&group.name, "/no_decay");
      std::visit(
          [](auto& rule) {
            if constexpr (requires { rule.weight_decay; }) rule.weight_decay = 0;
          },
          group.optimizer);
      without_decay_ = Add(group);
    }
    return without_decay_;
  }

  void CheckPatternsUsed() const {
    for (size_t i = 0; i < matched_.size(); ++i) {
      if (matched_[i]) continue;
      Refuse(absl::StrCat("optimizers.", optimizer_.group.name, ".no_decay: \"",
                          optimizer_.no_decay[i], "\" is like no parameter of this optimizer"));
    }
  }

 private:
  uint32_t Add(const OptimizerGroup& group) {
    parts_.declaration.groups.push_back(group);
    return static_cast<uint32_t>(parts_.declaration.groups.size());
  }

  ReplicaParts& parts_;
  const JobOptimizer& optimizer_;
  std::vector<bool> matched_;  // by pattern
  uint32_t own_ = 0;
  uint32_t without_decay_ = 0;  // 0: not there
};

// The variable that a parameter is; names the parameter where it is none.
size_t VariableOf(ReplicaParts& parts, const OptimizerLink& link, const torch::Tensor& parameter) {
  const auto found = Find(parts, parameter);
  if (found == parts.tensors.end()) {
    Refuse(absl::StrCat("optimizer \"", link.name, "\": parameter ", link.parameters.size(),
                        " is not part of a module that was added"));
  }
  return static_cast<size_t>(found - parts.tensors.begin());
}

Optimizer Link(ReplicaParts& parts, const JobOptimizer& optimizer,
               const std::vector<torch::Tensor>& parameters) {
  const std::string& name = optimizer.group.name;
  for (const std::shared_ptr<OptimizerLink>& known : parts.links) {
    if (known->name == name) Refuse(absl::StrCat("there is an optimizer \"", name, "\" already"));
  }
  auto link = std::make_shared<OptimizerLink>();
  link->name = name;
  link->clip = optimizer.clip;
  link->clip_is_the_jobs = parts.job_optimizers.count(name) > 0;
  link->step = &parts.step;
  OptimizerGroups groups(parts, optimizer);
  for (const torch::Tensor& parameter : parameters) {
    const size_t index = VariableOf(parts, *link, parameter);
    VariableSpec& variable = parts.declaration.variables[index];
    if (std::count(link->variables.begin(), link->variables.end(), index) > 0) continue;  // tied
    if (variable.group != 0) Refuse(absl::StrCat(variable.name, " has an optimizer already"));
    if (!parameter.requires_grad()) continue;  // frozen: state, as long as the job lasts
    variable.group = groups.Of(variable.name);
    variable.aggregation = Aggregation::kDefault;
    link->parameters.push_back(parameter);
    link->variables.push_back(index);
    link->names.push_back(variable.name);
    link->groups.push_back(variable.group);
  }
  groups.CheckPatternsUsed();
  parts.links.push_back(link);
  return Optimizer(std::move(link));
}

// What the job says comes before what the code says.
template <typename Kind>
Optimizer Wrap(ReplicaParts& parts, const std::string& name,
               const std::vector<torch::Tensor>& parameters, double rate, const Kind& kind) {
  const auto from_job = parts.job_optimizers.find(name);
  if (from_job != parts.job_optimizers.end()) return Link(parts, from_job->second, parameters);
  JobOptimizer optimizer;
  optimizer.group.name = name;
  optimizer.group.learning_rate.base = rate;
  optimizer.group.optimizer = kind;
  return Link(parts, optimizer, parameters);
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
