// SPDX-License-Identifier: Apache-2.0
// f32 variables as vectors, in the order of their declaration.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/status_matchers.h"
#include "weir/parameter_client.h"
#include "weir/variable.h"

namespace weir {

using Values = std::vector<std::vector<float>>;

// Each variable full of one value.
inline Values Filled(const Declaration& declaration, float value) {
  Values values;
  for (const VariableSpec& variable : declaration.variables) {
    values.emplace_back(variable.elements(), value);
  }
  return values;
}

// Of a push of one example in this step, with as much time as a loaded machine may take.
inline PushOptions AtStep(uint64_t step, double weight = 1) {
  PushOptions options;
  options.step = options.group_step = step;
  options.weight = weight;
  options.examples = 1;
  options.timeout = absl::Seconds(60);
  return options;
}

inline std::vector<PushItem> PushItems(const Values& values) {
  std::vector<PushItem> items;
  for (size_t v = 0; v < values.size(); ++v) {
    items.push_back({v, values[v].data(), values[v].size() * sizeof(float)});
  }
  return items;
}

inline std::vector<PullItem> PullItems(Values& values) {
  std::vector<PullItem> items;
  for (size_t v = 0; v < values.size(); ++v) {
    items.push_back({v, values[v].data(), values[v].size() * sizeof(float)});
  }
  return items;
}

inline Values PullAll(ParameterClient& client, const Declaration& declaration) {
  Values values = Filled(declaration, -12345.0f);
  PullOptions options;
  options.timeout = absl::Seconds(30);
  EXPECT_THAT(client.Pull(PullItems(values), options), IsOk());
  return values;
}

}  // namespace weir
