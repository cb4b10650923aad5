// SPDX-License-Identifier: Apache-2.0
#include "worker/target.h"

#include <torch/nn/module.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/deferred_updates.h"
#include "worker/replica_variables.h"
#include "worker/variable_declaration.h"

namespace weir {
namespace {

[[noreturn]] void Refuse(const std::string& target, const std::string& why) {
  throw StepError(absl::InvalidArgumentError(absl::StrCat("target \"", target, "\": ", why)));
}

void CheckOptions(const std::string& name, const TargetOptions& options) {
  const bool decays = options.decay != 0;
  if (decays == (options.every > 0)) {
    Refuse(name, "it takes from its source either every so many steps, or with a decay");
  }
  if (decays && !(options.decay > 0 && options.decay < 1)) {
    Refuse(name, absl::StrCat("its decay is between 0 and 1, not ", options.decay));
  }
}

using Named = torch::OrderedDict<std::string, torch::Tensor>;

// Each of the target's, with that of the source's of the same name.
std::vector<std::pair<torch::Tensor, torch::Tensor>> Pairs(const std::string& name,
                                                           const Named& target,
                                                           const Named& source) {
  std::vector<std::pair<torch::Tensor, torch::Tensor>> pairs;
  if (target.size() != source.size()) {
    Refuse(name, absl::StrCat("it has ", target.size(), " tensors and its source ", source.size()));
  }
  for (const auto& each : target) {
    const torch::Tensor* from = source.find(each.key());
    if (from != nullptr && from->is_same(each.value())) Refuse(name, "it is its source");
    if (from == nullptr || from->sizes() != each.value().sizes() ||
        from->scalar_type() != each.value().scalar_type()) {
      Refuse(name, absl::StrCat("its source has no \"", each.key(), "\" of the same shape"));
    }
    pairs.emplace_back(each.value(), *from);
  }
  return pairs;
}

bool IsDue(const ReplicaParts& parts, const TargetLink& target) {
  if (target.every > 0) return (parts.step.step + 1) % target.every == 0;
  return std::any_of(parts.links.begin(), parts.links.end(), [&](const auto& link) {
    return link->stepped == parts.step.step + 1 &&
           std::any_of(link->variables.begin(), link->variables.end(), [&](size_t variable) {
             return std::count(target.sources.begin(), target.sources.end(), variable) > 0;
           });
  });
}

// For all replicas of the process. All workers push the same where they are in step: their mean.
absl::Status Update(const StepParts& step, const TargetLink& target) {
  WEIR_RETURN_IF_ERROR(step.deferred->Settle());
  std::vector<PushItem> pushed;
  std::vector<PullItem> pulled;
  for (size_t i = 0; i < target.variables.size(); ++i) {
    const PullItem source = step.variables->StorageOf(target.sources[i]);
    pushed.push_back({target.variables[i], source.data, source.bytes});
    pulled.push_back(step.variables->StorageOf(target.variables[i]));
  }
  WEIR_RETURN_IF_ERROR(step.updates->Update(target.group, pushed, pulled, /*weight=*/1));
  step.variables->Land(pulled);
  return absl::OkStatus();
}

}  // namespace

void ReplicaContext::AddTargetModule(const std::string& name,
                                     std::shared_ptr<torch::nn::Module> module,
                                     const torch::nn::Module& source, const TargetOptions& options,
                                     uint32_t logical) {
  CheckOptions(name, options);
  const torch::NoGradGuard without_gradients;
  for (torch::Tensor& parameter : module->parameters()) parameter.set_requires_grad(false);
  AddModule(name, module, logical);
  TargetLink target;
  target.name = name;
  target.every = options.every;
  for (const auto& [to, from] :
       Pairs(name, module->named_parameters(), source.named_parameters())) {
    to.copy_(from);
    const auto variable = FindVariable(parts_, to);
    const auto of_source = FindVariable(parts_, from);
    if (!of_source) Refuse(name, "its source is not part of a module that was added");
    if (std::count(target.variables.begin(), target.variables.end(), *variable) > 0) continue;
    target.variables.push_back(*variable);
    target.sources.push_back(*of_source);
  }
  target.buffers = Pairs(name, module->named_buffers(), source.named_buffers());
  for (const auto& [to, from] : target.buffers) to.copy_(from);
  if (target.variables.empty()) Refuse(name, "it has no parameters");
  OptimizerGroup group;
  group.name = absl::StrCat("target ", name);
  group.learning_rate.base = 0;
  group.optimizer = Average{options.decay};
  parts_.declaration.groups.push_back(group);
  target.group = static_cast<uint32_t>(parts_.declaration.groups.size());
  for (const size_t variable : target.variables) {
    parts_.declaration.variables[variable].group = target.group;
    parts_.declaration.variables[variable].aggregation = Aggregation::kDefault;
  }
  parts_.targets.push_back(target);
}

void UpdateTargets(ReplicaParts& parts) {
  const torch::NoGradGuard without_gradients;
  for (const TargetLink& target : parts.targets) {
    if (!IsDue(parts, target)) continue;
    for (const auto& [to, from] : target.buffers) to.copy_(from);
    StepParts& step = parts.step;
    const absl::Status status =
        step.meeting->Meet(step.replica, absl::StrCat("target \"", target.name, "\""), nullptr,
                           [&](absl::Span<const void* const>) { return Update(step, target); });
    if (!status.ok()) throw StepError(status);
  }
}

}  // namespace weir
