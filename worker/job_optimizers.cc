// SPDX-License-Identifier: Apache-2.0
#include "worker/job_optimizers.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/nearest_word.h"
#include "worker/scalar_text.h"

namespace weir {
namespace {

std::vector<std::string> Kinds() {
  return {"sgd", "adagrad", "rmsprop", "adam", "adamw"};
}

double NumberOr(YamlMap& map, const std::string& key, double fallback) {
  const auto value = map.Get(key);
  if (!value) return fallback;
  return value->Number(0).value_or(fallback);
}

bool BoolOr(YamlMap& map, const std::string& key, bool fallback) {
  const auto value = map.Get(key);
  if (!value) return fallback;
  return value->Bool().value_or(fallback);
}

// Options and defaults are LibTorch's.
void ReadSgd(YamlMap& map, v1::Sgd& sgd) {
  sgd.set_momentum(NumberOr(map, "momentum", 0));
  sgd.set_dampening(NumberOr(map, "dampening", 0));
  sgd.set_weight_decay(NumberOr(map, "weight_decay", 0));
  sgd.set_nesterov(BoolOr(map, "nesterov", false));
  if (sgd.nesterov() && (sgd.momentum() == 0 || sgd.dampening() != 0)) {
    map.Report("nesterov needs a momentum above 0 and no dampening");
  }
}

void ReadAdagrad(YamlMap& map, v1::Adagrad& adagrad) {
  adagrad.set_lr_decay(NumberOr(map, "lr_decay", 0));
  adagrad.set_weight_decay(NumberOr(map, "weight_decay", 0));
  adagrad.set_initial_accumulator_value(NumberOr(map, "initial_accumulator_value", 0));
  adagrad.set_eps(NumberOr(map, "eps", 1e-10));
}

void ReadRmsProp(YamlMap& map, v1::RmsProp& rmsprop) {
  rmsprop.set_alpha(NumberOr(map, "alpha", 0.99));
  rmsprop.set_eps(NumberOr(map, "eps", 1e-8));
  rmsprop.set_weight_decay(NumberOr(map, "weight_decay", 0));
  rmsprop.set_momentum(NumberOr(map, "momentum", 0));
  rmsprop.set_centered(BoolOr(map, "centered", false));
}

void ReadAdam(YamlMap& map, double weight_decay, v1::Adam& adam) {
  adam.set_beta1(0.9);
  adam.set_beta2(0.999);
  if (const auto betas = map.Get("betas")) {
    const auto values = betas->List();
    const auto beta1 = values.size() == 2 ? values[0].Number(0) : std::nullopt;
    const auto beta2 = values.size() == 2 ? values[1].Number(0) : std::nullopt;
    if (beta1 && beta2 && *beta1 < 1 && *beta2 < 1) {
      adam.set_beta1(*beta1);
      adam.set_beta2(*beta2);
    } else if (betas->is_list()) {
      betas->Report("expected two numbers below 1, as in [0.9, 0.999]");
    }
  }
  adam.set_eps(NumberOr(map, "eps", 1e-8));
  adam.set_weight_decay(NumberOr(map, "weight_decay", weight_decay));
  adam.set_amsgrad(BoolOr(map, "amsgrad", false));
}

std::optional<double> Rate(YamlMap& map, const std::string& key, bool required, double fallback) {
  const auto value = map.Get(key);
  if (value) return value->Number(0);
  if (!required) return fallback;
  map.Report(absl::StrCat("\"", key, "\" is missing: a learning rate"));
  return std::nullopt;
}

void ReadWarmUp(YamlMap& map, ScheduleExtents& extents) {
  const auto warm_up = map.Get("warm_up");
  const auto epochs = map.Get("warm_up_epochs");
  if (warm_up) extents.warm_up = warm_up->Extent().value_or(v1::Extent());
  if (!epochs) return;
  if (warm_up) epochs->Report("is given beside \"warm_up\": give one of them");
  if (const auto number = epochs->Number(0)) extents.warm_up.set_epochs(*number);
}

void ReadShapeOfSteps(YamlMap& map, v1::Schedule& schedule, ScheduleExtents& extents) {
  schedule.mutable_step()->set_factor(NumberOr(map, "factor", 0.1));
  const auto at = map.Get("at");
  if (!at) return map.Report("\"at\" is missing: a list of lengths, as in [10 epochs, 15 epochs]");
  for (const YamlValue& boundary : at->List()) {
    if (const auto extent = boundary.Extent()) extents.boundaries.push_back(*extent);
  }
}

// {cosine: {from: 0.1, ...}}: `shape` is the one key of the learning rate's mapping.
void ReadShape(const std::string& shape, YamlMap& map, v1::Schedule& schedule,
               ScheduleExtents& extents) {
  schedule.set_base(Rate(map, "from", true, 0).value_or(0));
  ReadWarmUp(map, extents);
  if (shape == "step") {
    ReadShapeOfSteps(map, schedule, extents);
  } else if (shape != "constant") {
    const double to = Rate(map, "to", false, 0).value_or(0);
    if (const auto over = map.Get("over")) extents.total = over->Extent().value_or(v1::Extent());
    if (shape == "cosine") {
      schedule.mutable_cosine()->set_final_rate(to);
    } else {
      schedule.mutable_linear()->set_final_rate(to);
    }
  }
  map.Finish();
}

void ReadLearningRate(const YamlValue& value, v1::Schedule& schedule, ScheduleExtents& extents) {
  static constexpr char kForms[] =
      "expected a number or one of {constant: ...}, {step: ...}, {cosine: ...}, {linear: ...}";
  if (value.is_scalar()) {
    if (const auto rate = value.Number(0)) schedule.set_base(*rate);
    return;
  }
  auto map = value.is_map() ? value.Map() : std::nullopt;
  if (!map) return value.Report(kForms);
  int shapes = 0;
  for (const char* shape : {"constant", "step", "cosine", "linear"}) {
    const auto options = map->Get(shape);
    if (!options) continue;
    ++shapes;
    if (auto inner = options->Map()) ReadShape(shape, *inner, schedule, extents);
  }
  map->Finish();
  if (shapes != 1) value.Report(kForms);
}

std::optional<std::string> KindOf(const std::string& name, YamlMap& map) {
  if (const auto kind = map.Get("kind")) return kind->OneOf(Kinds());
  for (const std::string& kind : Kinds()) {
    if (kind == name) return kind;
  }
  const std::string nearest = NearestWord(name, Kinds());
  map.Report(absl::StrCat(
      "\"kind\" is missing, and the name is not itself one of ", absl::StrJoin(Kinds(), ", "),
      nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?")));
  return std::nullopt;
}

void ReadClip(const YamlValue& value, v1::GradientClip& clip) {
  auto map = value.Map();
  if (!map) return;
  const std::pair<const char*, void (v1::GradientClip::*)(double)> kinds[] = {
      {"value", &v1::GradientClip::set_value},
      {"global_norm", &v1::GradientClip::set_global_norm},
      {"push_norm", &v1::GradientClip::set_push_norm}};
  int given = 0;
  for (const auto& [key, set] : kinds) {
    const auto limit = map->Get(key);
    if (!limit) continue;
    ++given;
    const auto number = limit->Number(0);
    if (number && *number == 0) limit->Report("expected a number above 0");
    if (number) (clip.*set)(*number);
  }
  map->Finish();
  if (given != 1)
    value.Report("expected one of {value: ...}, {global_norm: ...}, {push_norm: ...}");
}

void ReadOptimizer(const std::string& name, YamlMap& map, JobFile& job) {
  v1::Optimizer& optimizer = (*job.spec.mutable_optimizers())[name];
  const auto kind = KindOf(name, map);
  const auto rate = map.Get("learning_rate");
  if (rate) {
    ReadLearningRate(*rate, *optimizer.mutable_learning_rate(), job.schedules[name]);
  } else {
    map.Report("\"learning_rate\" is missing");
  }
  if (const auto clip = map.Get("clip")) ReadClip(*clip, *optimizer.mutable_clip());
  if (const auto patterns = map.Get("no_decay")) {
    for (const YamlValue& pattern : patterns->List()) {
      if (const auto text = pattern.String()) optimizer.add_no_decay(*text);
    }
  }
  if (!kind) return;
  if (*kind == "sgd") ReadSgd(map, *optimizer.mutable_sgd());
  if (*kind == "adagrad") ReadAdagrad(map, *optimizer.mutable_adagrad());
  if (*kind == "rmsprop") ReadRmsProp(map, *optimizer.mutable_rmsprop());
  if (*kind == "adam") ReadAdam(map, 0, *optimizer.mutable_adam());
  if (*kind == "adamw") ReadAdam(map, 1e-2, *optimizer.mutable_adamw());
  map.Finish();
}

std::string PrintSchedule(const v1::Schedule& schedule) {
  const std::string base = FormatNumber(schedule.base());
  const std::string warm_up =
      schedule.warm_up_examples() == 0
          ? ""
          : absl::StrCat(", warm_up: ", schedule.warm_up_examples(), " examples");
  const auto ramp = [&](absl::string_view shape, double final_rate, uint64_t total) {
    return absl::StrCat("{", shape, ": {from: ", base, ", to: ", FormatNumber(final_rate),
                        ", over: ", total, " examples", warm_up, "}}");
  };
  switch (schedule.shape_case()) {
    case v1::Schedule::kCosine:
      return ramp("cosine", schedule.cosine().final_rate(), schedule.cosine().total_examples());
    case v1::Schedule::kLinear:
      return ramp("linear", schedule.linear().final_rate(), schedule.linear().total_examples());
    case v1::Schedule::kStep:
      return absl::StrCat("{step: {from: ", base,
                          ", factor: ", FormatNumber(schedule.step().factor()), ", at: [",
                          absl::StrJoin(schedule.step().boundary_examples(), ", ",
                                        [](std::string* out, uint64_t boundary) {
                                          absl::StrAppend(out, boundary, " examples");
                                        }),
                          "]", warm_up, "}}");
    case v1::Schedule::SHAPE_NOT_SET:
      break;
  }
  return warm_up.empty() ? base : absl::StrCat("{constant: {from: ", base, warm_up, "}}");
}

const char* BoolText(bool value) {
  return value ? "true" : "false";
}

std::string PrintAdam(const v1::Adam& adam) {
  return absl::StrCat("betas: [", FormatNumber(adam.beta1()), ", ", FormatNumber(adam.beta2()),
                      "], eps: ", FormatNumber(adam.eps()),
                      ", weight_decay: ", FormatNumber(adam.weight_decay()),
                      ", amsgrad: ", BoolText(adam.amsgrad()));
}

std::string PrintKind(const v1::Optimizer& optimizer) {
  switch (optimizer.kind_case()) {
    case v1::Optimizer::kSgd: {
      const v1::Sgd& sgd = optimizer.sgd();
      return absl::StrCat("kind: sgd, momentum: ", FormatNumber(sgd.momentum()),
                          ", dampening: ", FormatNumber(sgd.dampening()),
                          ", weight_decay: ", FormatNumber(sgd.weight_decay()),
                          ", nesterov: ", BoolText(sgd.nesterov()));
    }
    case v1::Optimizer::kAdagrad: {
      const v1::Adagrad& adagrad = optimizer.adagrad();
      return absl::StrCat(
          "kind: adagrad, lr_decay: ", FormatNumber(adagrad.lr_decay()),
          ", weight_decay: ", FormatNumber(adagrad.weight_decay()),
          ", initial_accumulator_value: ", FormatNumber(adagrad.initial_accumulator_value()),
          ", eps: ", FormatNumber(adagrad.eps()));
    }
    case v1::Optimizer::kRmsprop: {
      const v1::RmsProp& rmsprop = optimizer.rmsprop();
      return absl::StrCat("kind: rmsprop, alpha: ", FormatNumber(rmsprop.alpha()),
                          ", eps: ", FormatNumber(rmsprop.eps()),
                          ", weight_decay: ", FormatNumber(rmsprop.weight_decay()),
                          ", momentum: ", FormatNumber(rmsprop.momentum()),
                          ", centered: ", BoolText(rmsprop.centered()));
    }
    case v1::Optimizer::kAdam:
      return absl::StrCat("kind: adam, ", PrintAdam(optimizer.adam()));
    case v1::Optimizer::kAdamw:
      return absl::StrCat("kind: adamw, ", PrintAdam(optimizer.adamw()));
    case v1::Optimizer::kAverage:  // of no job file
    case v1::Optimizer::KIND_NOT_SET:
      break;
  }
  return "";
}

}  // namespace

void ReadOptimizers(const YamlValue& value, JobFile& job) {
  const auto map = value.Map();
  if (!map) return;
  YamlMap optimizers = *map;
  for (const std::string& name : optimizers.Keys()) {
    const auto options = optimizers.Get(name);
    auto inner = options ? options->Map() : std::nullopt;
    if (inner) ReadOptimizer(name, *inner, job);
  }
  optimizers.Finish();
  if (job.spec.optimizers_size() == 0) value.Report("expected at least one optimizer");
  if (job.spec.optimizers_size() > 1 && job.spec.model().replica().empty()) {
    value.Report("the built-in models have one optimizer: expected one name");
  }
}

v1::Optimizer DefaultOptimizer() {
  v1::Optimizer optimizer;
  optimizer.mutable_learning_rate()->set_base(0.1);
  optimizer.mutable_sgd()->set_momentum(0.9);
  return optimizer;
}

std::string PrintOptimizer(const v1::Optimizer& optimizer) {
  const v1::GradientClip& clip = optimizer.clip();
  std::string more;
  if (clip.value() > 0) more = absl::StrCat(", clip: {value: ", FormatNumber(clip.value()), "}");
  if (clip.global_norm() > 0) {
    more = absl::StrCat(", clip: {global_norm: ", FormatNumber(clip.global_norm()), "}");
  }
  if (clip.push_norm() > 0) {
    more = absl::StrCat(", clip: {push_norm: ", FormatNumber(clip.push_norm()), "}");
  }
  if (optimizer.no_decay_size() > 0) {
    absl::StrAppend(&more, ", no_decay: [",
                    absl::StrJoin(optimizer.no_decay(), ", ",
                                  [](std::string* out, const std::string& pattern) {
                                    absl::StrAppend(out, Quoted(pattern));
                                  }),
                    "]");
  }
  return absl::StrCat("{", PrintKind(optimizer),
                      ", learning_rate: ", PrintSchedule(optimizer.learning_rate()), more, "}");
}

}  // namespace weir
