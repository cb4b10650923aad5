// SPDX-License-Identifier: Apache-2.0
// How optimizers take their parameters, and which groups of them the servers know.
#include <fnmatch.h>

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "worker/local_optimizer.h"
#include "worker/replica_parts.h"
#include "worker/variable_declaration.h"

namespace weir {
namespace {

using torch::optim::OptimizerParamGroup;

[[noreturn]] void Refuse(const std::string& message) {
  throw StepError(absl::InvalidArgumentError(message));
}

// Parameters with the rule of their own group on the servers.
struct Share {
  OptimizerGroup group;
  std::vector<torch::Tensor> parameters;
};

// True: one of the name's parts, between slashes and dots, is like the pattern.
bool Matches(const std::string& pattern, const std::string& name) {
  for (const std::string& part :
       std::vector<std::string>(absl::StrSplit(name, absl::ByAnyChar("/.")))) {
    if (fnmatch(pattern.c_str(), part.c_str(), 0) == 0) return true;
  }
  return false;
}

// The groups that the servers know of one optimizer: those of its shares, and one beside each
// without weight decay where the job wants that for some parameters.
class OptimizerGroups {
 public:
  OptimizerGroups(ReplicaParts& parts, const std::string& optimizer,
                  const std::vector<std::string>& no_decay)
      : parts_(parts), optimizer_(optimizer), no_decay_(no_decay), matched_(no_decay_.size()) {}

  // Index in the declaration plus one.
  uint32_t Of(const OptimizerGroup& own, const std::string& parameter) {
    bool decays = true;
    for (size_t i = 0; i < matched_.size(); ++i) {
      if (!Matches(no_decay_[i], parameter)) continue;
      matched_[i] = true;
      decays = false;
    }
    const uint32_t known = Declared(own);
    if (decays) return known;
    OptimizerGroup group = own;
    absl::StrAppend(&group.name, "/no_decay");
    std::visit(
        [](auto& rule) {
          if constexpr (requires { rule.weight_decay; }) rule.weight_decay = 0;
        },
        group.optimizer);
    return Declared(group);
  }

  void CheckPatternsUsed() const {
    for (size_t i = 0; i < matched_.size(); ++i) {
      if (matched_[i]) continue;
      Refuse(absl::StrCat("optimizers.", optimizer_, ".no_decay: \"", no_decay_[i],
                          "\" is like no parameter of this optimizer"));
    }
  }

 private:
  uint32_t Declared(const OptimizerGroup& group) {
    std::vector<OptimizerGroup>& groups = parts_.declaration.groups;
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const OptimizerGroup& other) {
      return other.name == group.name;
    });
    if (found != groups.end()) return static_cast<uint32_t>(found - groups.begin()) + 1;
    groups.push_back(group);
    return static_cast<uint32_t>(groups.size());
  }

  ReplicaParts& parts_;
  const std::string& optimizer_;
  const std::vector<std::string> no_decay_;  // patterns
  std::vector<bool> matched_;                // the same
};

// The variable that a parameter is; names the parameter where it is none.
size_t VariableOf(const ReplicaParts& parts, const std::string& optimizer, size_t place,
                  const torch::Tensor& parameter) {
  const auto variable = FindVariable(parts, parameter);
  if (!variable) {
    Refuse(absl::StrCat("optimizer \"", optimizer, "\": parameter ", place,
                        " is not part of a module that was added"));
  }
  return *variable;
}

std::shared_ptr<OptimizerLink> NewLink(ReplicaParts& parts, const std::string& name) {
  for (const std::shared_ptr<OptimizerLink>& known : parts.links) {
    if (known->name == name) Refuse(absl::StrCat("there is an optimizer \"", name, "\" already"));
  }
  auto link = std::make_shared<OptimizerLink>();
  link->name = name;
  link->step = &parts.step;
  parts.links.push_back(link);
  return link;
}

void TakeParameter(ReplicaParts& parts, OptimizerLink& link, const torch::Tensor& parameter,
                   size_t variable, uint32_t group) {
  VariableSpec& spec = parts.declaration.variables[variable];
  if (spec.group != 0) Refuse(absl::StrCat(spec.name, " has an optimizer already"));
  spec.group = group;
  spec.aggregation = Aggregation::kDefault;
  link.parameters.push_back(parameter);
  link.variables.push_back(variable);
  link.names.push_back(spec.name);
  link.groups.push_back(group);
}

Optimizer Link(ReplicaParts& parts, const std::string& name, const std::vector<Share>& shares) {
  const auto link = NewLink(parts, name);
  const auto from_job = parts.job_optimizers.find(name);
  const bool of_job = from_job != parts.job_optimizers.end();
  if (of_job) link->clip = from_job->second.clip;
  link->clip_is_the_jobs = of_job;
  OptimizerGroups groups(parts, name,
                         of_job ? from_job->second.no_decay : std::vector<std::string>());
  size_t place = 0;
  for (const Share& share : shares) {
    for (const torch::Tensor& parameter : share.parameters) {
      const size_t variable = VariableOf(parts, name, place++, parameter);
      const bool tied = std::count(link->variables.begin(), link->variables.end(), variable) > 0;
      // A frozen one is state, as long as the job lasts.
      if (tied || !parameter.requires_grad()) continue;
      const uint32_t group = groups.Of(share.group, parts.declaration.variables[variable].name);
      TakeParameter(parts, *link, parameter, variable, group);
    }
  }
  groups.CheckPatternsUsed();
  return Optimizer(link);
}

using Rule = decltype(OptimizerGroup::optimizer);

Rule RuleOf(const torch::optim::SGDOptions& options) {
  return Sgd{options.momentum(), options.dampening(), options.weight_decay(), options.nesterov()};
}
Rule RuleOf(const torch::optim::AdamOptions& options) {
  const auto& [beta1, beta2] = options.betas();
  return Adam{beta1, beta2, options.eps(), options.weight_decay(), options.amsgrad()};
}
Rule RuleOf(const torch::optim::AdamWOptions& options) {
  const auto& [beta1, beta2] = options.betas();
  return AdamW{beta1, beta2, options.eps(), options.weight_decay(), options.amsgrad()};
}
Rule RuleOf(const torch::optim::AdagradOptions& options) {
  return Adagrad{options.lr_decay(), options.weight_decay(), options.initial_accumulator_value(),
                 options.eps()};
}
Rule RuleOf(const torch::optim::RMSpropOptions& options) {
  return RmsProp{options.alpha(), options.eps(), options.weight_decay(), options.momentum(),
                 options.centered()};
}

template <typename Options>
OptimizerGroup GroupOf(const std::string& name, const Options& options) {
  OptimizerGroup group;
  group.name = name;
  group.learning_rate.base = options.lr();
  group.optimizer = RuleOf(options);
  return group;
}

// What the job says comes before what the code says for the whole optimizer; a group's own options
// come before both.
template <typename Options>
Optimizer Wrap(ReplicaParts& parts, const std::string& name,
               const std::vector<OptimizerParamGroup>& groups, const Options& options) {
  const auto from_job = parts.job_optimizers.find(name);
  const OptimizerGroup of_all =
      from_job != parts.job_optimizers.end() ? from_job->second.group : GroupOf(name, options);
  std::vector<Share> shares;
  for (size_t i = 0; i < groups.size(); ++i) {
    Share share{of_all, groups[i].params()};
    if (groups[i].has_options()) {
      const auto* own = dynamic_cast<const Options*>(&groups[i].options());
      if (own == nullptr) {
        Refuse(absl::StrCat("optimizer \"", name, "\": the options of parameter group ", i,
                            " are of another class than those of the optimizer"));
      }
      share.group = GroupOf(absl::StrCat(name, "/", i), *own);
    }
    shares.push_back(std::move(share));
  }
  return Link(parts, name, shares);
}

template <typename Options>
Optimizer Wrap(ReplicaParts& parts, const std::string& name,
               const std::vector<torch::Tensor>& parameters, const Options& options) {
  return Wrap(parts, name, std::vector<OptimizerParamGroup>{OptimizerParamGroup(parameters)},
              options);
}

}  // namespace

Optimizer ReplicaContext::WrapOptimizer(const std::string& name,
                                        std::unique_ptr<torch::optim::Optimizer> optimizer) {
  if (optimizer == nullptr) Refuse(absl::StrCat("optimizer \"", name, "\" is null"));
  if (parts_.job_optimizers.count(name) > 0) {
    Refuse(absl::StrCat("optimizers.", name, ": this optimizer is stepped by the replicas, with ",
                        "the options that the code gives it; take it out of the job file"));
  }
  if (!parts_.no_local_optimizers.empty()) {
    Refuse(absl::StrCat("optimizer \"", name, "\" is stepped by the replicas, which needs ",
                        "regime: sync without backup_workers; ", parts_.no_local_optimizers));
  }
  const auto link = NewLink(parts_, name);
  OptimizerGroup group;
  group.name = name;
  group.learning_rate.base = 0;  // the optimizer has its own
  group.optimizer = Average();
  parts_.declaration.groups.push_back(group);
  const auto number = static_cast<uint32_t>(parts_.declaration.groups.size());
  for (const torch::Tensor& parameter : LocalOptimizer::ParametersOf(*optimizer)) {
    const size_t place = link->parameters.size();
    TakeParameter(parts_, *link, parameter, VariableOf(parts_, name, place, parameter), number);
  }
  if (link->parameters.empty()) {
    Refuse(absl::StrCat("optimizer \"", name, "\" has no parameter that needs a gradient"));
  }
  link->local = std::make_shared<LocalOptimizer>(name, std::move(optimizer), link->names);
  for (const auto& [kept, tensor] : link->local->kept()) {
    DeclareVariable(parts_, absl::StrCat(name, "/state/", kept), tensor, Aggregation::kDefault);
    link->kept.push_back(parts_.declaration.variables.size() - 1);
    parts_.declaration.variables.back().group = number;
  }
  return Optimizer(link);
}

// For parameters, and for groups of them.
#define WEIR_WRAP_OPTIMIZER(Options)                                                      \
  Optimizer ReplicaContext::WrapOptimizer(const std::string& name,                        \
                                          const std::vector<torch::Tensor>& parameters,   \
                                          const torch::optim::Options& options) {         \
    return Wrap(parts_, name, parameters, options);                                       \
  }                                                                                       \
  Optimizer ReplicaContext::WrapOptimizer(const std::string& name,                        \
                                          const std::vector<OptimizerParamGroup>& groups, \
                                          const torch::optim::Options& options) {         \
    return Wrap(parts_, name, groups, options);                                           \
  }
WEIR_WRAP_OPTIMIZER(SGDOptions)
WEIR_WRAP_OPTIMIZER(AdamOptions)
WEIR_WRAP_OPTIMIZER(AdamWOptions)
WEIR_WRAP_OPTIMIZER(AdagradOptions)
WEIR_WRAP_OPTIMIZER(RMSpropOptions)
#undef WEIR_WRAP_OPTIMIZER

Optimizer ReplicaContext::WrapJobOptimizer(const std::vector<torch::Tensor>& parameters) {
  if (parts_.job_optimizers.size() != 1) {
    Refuse(absl::StrCat("a built-in model trains with one optimizer, the job names ",
                        parts_.job_optimizers.size()));
  }
  const auto& [name, optimizer] = *parts_.job_optimizers.begin();
  return Link(parts_, name, {{optimizer.group, parameters}});
}

}  // namespace weir
