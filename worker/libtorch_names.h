// SPDX-License-Identifier: Apache-2.0
// What LibTorch 1.13 and 2.6 (those of Debian 12 and 13) call by different names.
#pragma once

#include <ATen/autocast_mode.h>
#include <torch/types.h>
#include <torch/version.h>

#include <string>

#if TORCH_VERSION_MAJOR < 2
#include <c10/util/string_utils.h>
#endif

namespace weir {

// Of this thread, on a kind of device.
inline bool AutocastIsOn(at::DeviceType device) {
#if TORCH_VERSION_MAJOR < 2
  return device == at::kCPU ? at::autocast::is_cpu_enabled() : at::autocast::is_enabled();
#else
  return at::autocast::is_autocast_enabled(device);
#endif
}

inline void SetAutocast(at::DeviceType device, bool on) {
#if TORCH_VERSION_MAJOR < 2
  device == at::kCPU ? at::autocast::set_cpu_enabled(on) : at::autocast::set_enabled(on);
#else
  at::autocast::set_autocast_enabled(device, on);
#endif
}

inline void SetAutocastType(at::DeviceType device, at::ScalarType type) {
#if TORCH_VERSION_MAJOR < 2
  device == at::kCPU ? at::autocast::set_autocast_cpu_dtype(type)
                     : at::autocast::set_autocast_gpu_dtype(type);
#else
  at::autocast::set_autocast_dtype(device, type);
#endif
}

// Under which a torch::optim::Optimizer keeps its state of a parameter.
#if TORCH_VERSION_MAJOR < 2
using OptimizerStateKey = std::string;
#else
using OptimizerStateKey = void*;
#endif

inline OptimizerStateKey StateKeyOf(const torch::Tensor& parameter) {
#if TORCH_VERSION_MAJOR < 2
  return c10::guts::to_string(parameter.unsafeGetTensorImpl());
#else
  return parameter.unsafeGetTensorImpl();
#endif
}

}  // namespace weir
