// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "worker/replica_parts.h"
#include "worker/variable_declaration.h"

namespace weir {

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
    throw StepError(
        absl::InvalidArgumentError(absl::StrCat("there is a module \"", name, "\" already")));
  }
  module->to(LogicalDevice(logical));
  for (const auto& parameter : module->named_parameters()) {
    // As long as no optimizer takes it.
    DeclareVariable(parts_, absl::StrCat(name, "/", parameter.key()), parameter.value(),
                    Aggregation::kFirst);
  }
  for (const auto& buffer : module->named_buffers()) {
    DeclareVariable(parts_, absl::StrCat(name, "/", buffer.key()), buffer.value(),
                    Aggregation::kDefault);
  }
}

}  // namespace weir
