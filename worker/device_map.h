// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace weir {

// Which devices the replicas of a process compute on: M replicas of L logical devices each on M * L
// accelerators, or all of them on the CPU. Immutable, thread-safe.
class DeviceMap {
 public:
  struct Options {
    std::string device = "auto";   // "auto": accelerators, where there are any; "cpu"; "cuda"
    uint32_t replicas = 1;         // of the process
    uint32_t logical_devices = 1;  // of a replica
    uint32_t accelerators = 0;     // that LibTorch sees
  };
  struct Device {
    bool cpu = true;
    int index = 0;  // of the accelerator
  };

  DeviceMap() = default;  // one replica on the CPU
  // Errors: InvalidArgument - accelerators are asked for or taken, and there are none, or too few:
  // no two replicas share one.
  static absl::StatusOr<DeviceMap> Create(const Options& options);

  bool on_cpu() const { return cpu_; }
  // `replica` is counted from 0 in the process. Errors: InvalidArgument - a replica has no such
  // logical device.
  absl::StatusOr<Device> At(uint32_t replica, uint32_t logical) const;

 private:
  bool cpu_ = true;
  uint32_t logical_devices_ = 1;
};

}  // namespace weir
