// SPDX-License-Identifier: Apache-2.0
#include "client/declaration_proto.h"

#include <limits>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/dtype.h"

namespace weir {
namespace {

v1::Schedule ToProto(const Schedule& schedule) {
  v1::Schedule proto;
  proto.set_base(schedule.base);
  proto.set_warm_up_examples(schedule.warm_up_examples);
  if (const auto* step = std::get_if<Schedule::Step>(&schedule.shape)) {
    for (const uint64_t boundary : step->boundary_examples) {
      proto.mutable_step()->add_boundary_examples(boundary);
    }
    proto.mutable_step()->set_factor(step->factor);
  } else if (const auto* cosine = std::get_if<Schedule::Cosine>(&schedule.shape)) {
    proto.mutable_cosine()->set_total_examples(cosine->total_examples);
    proto.mutable_cosine()->set_final_rate(cosine->final_rate);
  } else if (const auto* linear = std::get_if<Schedule::Linear>(&schedule.shape)) {
    proto.mutable_linear()->set_total_examples(linear->total_examples);
    proto.mutable_linear()->set_final_rate(linear->final_rate);
  }
  return proto;
}

Schedule FromProto(const v1::Schedule& proto) {
  Schedule schedule{
      .base = proto.base(), .warm_up_examples = proto.warm_up_examples(), .shape = {}};
  if (proto.has_step()) {
    const auto& boundaries = proto.step().boundary_examples();
    schedule.shape = Schedule::Step{{boundaries.begin(), boundaries.end()}, proto.step().factor()};
  } else if (proto.has_cosine()) {
    schedule.shape = Schedule::Cosine{proto.cosine().total_examples(), proto.cosine().final_rate()};
  } else if (proto.has_linear()) {
    schedule.shape = Schedule::Linear{proto.linear().total_examples(), proto.linear().final_rate()};
  }
  return schedule;
}

template <typename AnyAdam>
void FillAdam(const AnyAdam& from, v1::Adam& to) {
  to.set_beta1(from.beta1);
  to.set_beta2(from.beta2);
  to.set_eps(from.eps);
  to.set_weight_decay(from.weight_decay);
  to.set_amsgrad(from.amsgrad);
}

template <typename AnyAdam>
AnyAdam AdamFrom(const v1::Adam& proto) {
  return {.beta1 = proto.beta1(),
          .beta2 = proto.beta2(),
          .eps = proto.eps(),
          .weight_decay = proto.weight_decay(),
          .amsgrad = proto.amsgrad()};
}

void Fill(const Sgd& from, v1::Optimizer& to) {
  to.mutable_sgd()->set_momentum(from.momentum);
  to.mutable_sgd()->set_dampening(from.dampening);
  to.mutable_sgd()->set_weight_decay(from.weight_decay);
  to.mutable_sgd()->set_nesterov(from.nesterov);
}
void Fill(const Adagrad& from, v1::Optimizer& to) {
  to.mutable_adagrad()->set_lr_decay(from.lr_decay);
  to.mutable_adagrad()->set_weight_decay(from.weight_decay);
  to.mutable_adagrad()->set_initial_accumulator_value(from.initial_accumulator_value);
  to.mutable_adagrad()->set_eps(from.eps);
}
void Fill(const RmsProp& from, v1::Optimizer& to) {
  to.mutable_rmsprop()->set_alpha(from.alpha);
  to.mutable_rmsprop()->set_eps(from.eps);
  to.mutable_rmsprop()->set_weight_decay(from.weight_decay);
  to.mutable_rmsprop()->set_momentum(from.momentum);
  to.mutable_rmsprop()->set_centered(from.centered);
}
void Fill(const Adam& from, v1::Optimizer& to) {
  FillAdam(from, *to.mutable_adam());
}
void Fill(const AdamW& from, v1::Optimizer& to) {
  FillAdam(from, *to.mutable_adamw());
}
void Fill(const Average& from, v1::Optimizer& to) {
  to.mutable_average()->set_decay(from.decay);
}

OptimizerGroup FromProto(const v1::OptimizerGroup& proto) {
  OptimizerGroup group{.name = proto.name(),
                       .learning_rate = FromProto(proto.optimizer().learning_rate()),
                       .optimizer = {}};
  const v1::Optimizer& optimizer = proto.optimizer();
  switch (optimizer.kind_case()) {
    case v1::Optimizer::kSgd:
      group.optimizer = Sgd{optimizer.sgd().momentum(), optimizer.sgd().dampening(),
                            optimizer.sgd().weight_decay(), optimizer.sgd().nesterov()};
      break;
    case v1::Optimizer::kAdagrad:
      group.optimizer =
          Adagrad{optimizer.adagrad().lr_decay(), optimizer.adagrad().weight_decay(),
                  optimizer.adagrad().initial_accumulator_value(), optimizer.adagrad().eps()};
      break;
    case v1::Optimizer::kRmsprop:
      group.optimizer = RmsProp{optimizer.rmsprop().alpha(), optimizer.rmsprop().eps(),
                                optimizer.rmsprop().weight_decay(), optimizer.rmsprop().momentum(),
                                optimizer.rmsprop().centered()};
      break;
    case v1::Optimizer::kAdam:
      group.optimizer = AdamFrom<Adam>(optimizer.adam());
      break;
    case v1::Optimizer::kAdamw:
      group.optimizer = AdamFrom<AdamW>(optimizer.adamw());
      break;
    case v1::Optimizer::kAverage:
      group.optimizer = Average{optimizer.average().decay()};
      break;
    case v1::Optimizer::KIND_NOT_SET:
      break;  // refused by CheckWellFormed
  }
  return group;
}

absl::Status Wrong(absl::string_view what, absl::string_view name, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(what, " '", name, "': ", why));
}

absl::Status CheckSize(const v1::Variable& variable) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  uint64_t bytes = ElementBytes(variable.dtype());
  for (const uint64_t extent : variable.shape()) {
    if (extent == 0) return absl::OkStatus();
  }
  for (const uint64_t extent : variable.shape()) {
    if (bytes > kMost / extent) {
      return Wrong("variable", variable.name(), "its shape has more bytes than 63 bits can count");
    }
    bytes *= extent;
  }
  return absl::OkStatus();
}

absl::Status CheckVariable(const v1::Variable& variable, int groups) {
  const bool floating = IsFloating(variable.dtype());
  if (variable.name().empty()) return absl::InvalidArgumentError("a variable has no name");
  if (ElementBytes(variable.dtype()) == 0) {
    return Wrong("variable", variable.name(),
                 absl::StrCat("dtype ", variable.dtype(), " is unknown"));
  }
  if (variable.group() > static_cast<uint32_t>(groups)) {
    return Wrong("variable", variable.name(),
                 absl::StrCat("group ", variable.group(), " of ", groups, " does not exist"));
  }
  if (variable.group() != 0 && !floating) {
    return Wrong("variable", variable.name(),
                 absl::StrCat("a parameter must be f32 or f64, found ",
                              v1::DType_Name(variable.dtype()), "; others are state (group 0)"));
  }
  if (!v1::Aggregation_IsValid(variable.aggregation())) {
    return Wrong("variable", variable.name(), "its aggregation is unknown");
  }
  if (variable.group() == 0 && variable.aggregation() == v1::AGGREGATION_MEAN && !floating) {
    return Wrong("variable", variable.name(), "MEAN of integers is refused; MAX is their default");
  }
  return CheckSize(variable);
}

}  // namespace

v1::Declaration ToProto(const Declaration& declaration) {
  v1::Declaration proto;
  for (const VariableSpec& variable : declaration.variables) {
    v1::Variable& to = *proto.add_variables();
    to.set_name(variable.name);
    to.set_dtype(static_cast<v1::DType>(variable.dtype));
    for (const uint64_t extent : variable.shape) to.add_shape(extent);
    to.set_group(variable.group);
    to.set_aggregation(static_cast<v1::Aggregation>(variable.aggregation));
  }
  for (const OptimizerGroup& group : declaration.groups) {
    v1::OptimizerGroup& to = *proto.add_groups();
    to.set_name(group.name);
    *to.mutable_optimizer()->mutable_learning_rate() = ToProto(group.learning_rate);
    std::visit([&](const auto& optimizer) { Fill(optimizer, *to.mutable_optimizer()); },
               group.optimizer);
  }
  return proto;
}

absl::StatusOr<Declaration> FromProto(const v1::Declaration& proto) {
  WEIR_RETURN_IF_ERROR(CheckWellFormed(proto));
  Declaration declaration;
  for (const v1::Variable& variable : proto.variables()) {
    declaration.variables.push_back(
        {.name = variable.name(),
         .dtype = static_cast<DType>(variable.dtype()),
         .shape = {variable.shape().begin(), variable.shape().end()},
         .group = variable.group(),
         .aggregation = static_cast<Aggregation>(variable.aggregation())});
  }
  for (const v1::OptimizerGroup& group : proto.groups()) {
    declaration.groups.push_back(FromProto(group));
  }
  return declaration;
}

absl::Status CheckWellFormed(const v1::Declaration& declaration) {
  absl::flat_hash_set<absl::string_view> names;
  for (const v1::Variable& variable : declaration.variables()) {
    WEIR_RETURN_IF_ERROR(CheckVariable(variable, declaration.groups_size()));
    if (!names.insert(variable.name()).second) {
      return Wrong("variable", variable.name(), "is declared twice");
    }
  }
  names.clear();
  for (const v1::OptimizerGroup& group : declaration.groups()) {
    if (group.name().empty()) return absl::InvalidArgumentError("an optimizer group has no name");
    if (!names.insert(group.name()).second) {
      return Wrong("optimizer group", group.name(), "is declared twice");
    }
    if (group.optimizer().kind_case() == v1::Optimizer::KIND_NOT_SET) {
      return Wrong("optimizer group", group.name(), "has no optimizer");
    }
  }
  return absl::OkStatus();
}

uint64_t ElementsOf(const v1::Variable& variable) {
  uint64_t product = 1;
  for (const uint64_t extent : variable.shape()) product *= extent;
  return product;
}

}  // namespace weir
