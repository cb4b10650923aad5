// SPDX-License-Identifier: Apache-2.0
#include "worker/device_map.h"

#include "absl/strings/str_cat.h"

namespace weir {

absl::StatusOr<DeviceMap> DeviceMap::Create(const Options& options) {
  const uint64_t needed = uint64_t{options.replicas} * options.logical_devices;
  DeviceMap map;
  map.logical_devices_ = options.logical_devices;
  map.cpu_ = options.device == "cpu" || (options.device == "auto" && options.accelerators == 0);
  if (map.cpu_ || needed <= options.accelerators) return map;
  if (options.accelerators == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "device: ", options.device,
        ": LibTorch sees no accelerator here: it is a build without CUDA, or the machine has none; "
        "use device: cpu"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "device: ", options.device, ": ", options.replicas, " replicas of ", options.logical_devices,
      " logical devices need ", needed, " accelerators, and LibTorch sees ", options.accelerators,
      ": no two replicas share one; use fewer replicas_per_worker, or device: cpu"));
}

absl::StatusOr<DeviceMap::Device> DeviceMap::At(uint32_t replica, uint32_t logical) const {
  if (logical >= logical_devices_) {
    return absl::InvalidArgumentError(
        absl::StrCat("logical device ", logical, ": a replica of this job has ", logical_devices_,
                     ", counted from 0; the job's key logical_devices gives it more"));
  }
  Device device;
  device.cpu = cpu_;
  if (!cpu_) device.index = static_cast<int>(replica * logical_devices_ + logical);
  return device;
}

}  // namespace weir
