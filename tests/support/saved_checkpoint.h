// SPDX-License-Identifier: Apache-2.0
// Committed checkpoints as values that a test compares, whichever servers wrote them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weir/v1/coordinator.pb.h"

namespace weir {

// A variable, put together from its chunks in order.
struct SavedVariable {
  bool is_parameter = false;  // an optimizer updates it
  std::string weights;
  std::vector<std::string> slots;  // by chunk: its slots, one after the other
  std::vector<uint64_t> versions;  // by chunk
  std::vector<uint64_t> examples;  // by chunk

  uint64_t slot_bytes() const;
};

struct SavedCheckpoint {
  v1::Manifest manifest;
  std::map<std::string, SavedVariable> variables;

  // Of all parameters, which must be f32, in the order of their names.
  std::vector<float> Weights() const;
  std::vector<float> Slots() const;
};

// The newest checkpoint of a job, or that of `id`, from the data folder of its coordinator or of a
// local job; the parts are read where their servers wrote them.
absl::StatusOr<SavedCheckpoint> ReadSavedCheckpoint(const std::string& data_folder,
                                                    const std::string& job,
                                                    const std::string& id = "");

// Bit for bit: steps, examples, and every variable's weights, slots and versions. Empty where both
// are equal; else what differs first, and where.
std::string Difference(const SavedCheckpoint& a, const SavedCheckpoint& b);

}  // namespace weir
