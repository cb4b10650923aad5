// SPDX-License-Identifier: Apache-2.0
#include "worker/torch_replica.h"

#include <torch/utils.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/libtorch_names.h"
#include "worker/local_step.h"
#include "worker/target.h"

namespace weir {
namespace {

// Autocast to bfloat16 on this thread, on the CPU and on accelerators.
class Bf16 {
 public:
  explicit Bf16(bool on) : on_(on) {
    if (!on_) return;
    for (const at::DeviceType device : {at::kCPU, at::kCUDA}) {
      SetAutocastType(device, at::kBFloat16);
      SetAutocast(device, true);
    }
    at::autocast::increment_nesting();
  }
  ~Bf16() {
    if (!on_) return;
    // The weights that it has cast are old from here on.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    for (const at::DeviceType device : {at::kCPU, at::kCUDA}) SetAutocast(device, false);
  }
  Bf16(const Bf16&) = delete;
  Bf16& operator=(const Bf16&) = delete;

 private:
  const bool on_;
};

Nest InputsOf(const ReplicaBatch& batch, torch::Device device) {
  return batch.input->Transform([&](const torch::Tensor& tensor) { return tensor.to(device); });
}

void SetTraining(const ReplicaParts& parts, bool training) {
  for (const auto& [name, module] : parts.modules) {
    const bool follows =
        std::any_of(parts.targets.begin(), parts.targets.end(),
                    [&name = name](const TargetLink& target) { return target.name == name; });
    module->train(training && !follows);
  }
}

}  // namespace

void MetricsMean::Add(const Metrics& metrics, double weight) {
  for (const auto& [name, value] : metrics) {
    auto& [sum, weights] = sums_[name];
    // What has no weight may be no number.
    if (weight > 0) sum += value * weight;
    weights += weight;
  }
}

Metrics MetricsMean::Means() const {
  Metrics means;
  for (const auto& [name, sum] : sums_) {
    if (sum.second > 0) means[name] = sum.first / sum.second;
  }
  return means;
}

absl::Status CatchErrors(absl::string_view what, const std::function<void()>& function) {
  try {
    function();
    return absl::OkStatus();
  } catch (const StepError& error) {
    return error.status();
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat(what, ": ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(what, ": ", error.what()));
  } catch (...) {
    return absl::InternalError(absl::StrCat(what, ": an exception that is no std::exception"));
  }
}

Metrics ScalarsOf(const Nest& nest) {
  Metrics metrics;
  nest.ForEach([&](const std::string& name, const torch::Tensor& tensor) {
    if (!name.empty() && tensor.defined() && tensor.numel() == 1) {
      metrics[name] = tensor.item<double>();
    }
  });
  return metrics;
}

absl::Status TorchReplica::Build(const ReplicaFactory& factory, uint64_t seed) {
  Destroy();
  return CatchErrors("building the model", [&] {
    torch::manual_seed(seed);
    ReplicaContext context(parts_);
    replica_ = factory(context);
  });
}

void TorchReplica::Destroy() {
  replica_.reset();
  output_ = Nest();
  parts_.declaration = Declaration();
  parts_.tensors.clear();
  parts_.modules.clear();
  parts_.links.clear();
  parts_.targets.clear();
}

absl::Status TorchReplica::Train(const StepFunction& function, const Step& step,
                                 const ReplicaBatch& batch) {
  StepParts& parts = parts_.step;
  BeginStep(step, static_cast<double>(batch.examples));
  parts.in_touch = true;
  parts.updates = step.updates;
  parts.rng.set_current_seed(step.seed);
  SetTraining(parts_, true);
  absl::Status status = Run("training step", function, batch);
  if (status.ok()) status = CatchErrors("targets", [&] { UpdateTargets(parts_); });
  parts.in_touch = false;
  parts.updates = nullptr;
  return status;
}

void TorchReplica::BeginStep(const Step& step, double weight) {
  parts_.step.step = step.step;
  parts_.step.global_step = step.global_step;
  parts_.step.weight = weight;
  parts_.step.weight_used = false;
  parts_.step.collectives_called = 0;
  output_ = Nest();
}

absl::Status TorchReplica::Collect(const Step& next,
                                   const std::function<Nest(StepContext&)>& function) {
  BeginStep(next, 1);
  parts_.step.in_touch = true;
  const absl::Status status = CatchErrors("between steps", [&] {
    StepContext context(parts_.step);
    output_ = function(context);
  });
  parts_.step.in_touch = false;
  return status;
}

absl::Status TorchReplica::Evaluate(const ReplicaBatch& batch) {
  const torch::NoGradGuard without_gradients;
  BeginStep({parts_.step.step, parts_.step.global_step}, static_cast<double>(batch.examples));
  SetTraining(parts_, false);
  return Run(
      "evaluation",
      [](Replica& replica, StepContext& context, const Nest& input) {
        return replica.Evaluate(context, input);
      },
      batch);
}

absl::Status TorchReplica::Run(absl::string_view what, const StepFunction& function,
                               const ReplicaBatch& batch) {
  absl::Status status = CatchErrors(what, [&] {
    StepContext context(parts_.step);
    if (parts_.step.in_touch) ShareLocalOptimizers(parts_);
    const Bf16 autocast(bf16_);
    output_ = function(*replica_, context, InputsOf(batch, context.device()));
  });
  if (status.ok() || batch.examples > 0) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(),
                                                  "; its batch is empty, since the step has fewer "
                                                  "examples than there are replicas"));
}

}  // namespace weir
