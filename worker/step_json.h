// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "weir/job_session.h"

namespace weir {

inline nlohmann::ordered_json StepJson(const StepSeconds& seconds) {
  return {{"input", seconds.input},
          {"pull", seconds.pull},
          {"compute", seconds.compute},
          {"push", seconds.push},
          {"wait", seconds.wait}};
}

}  // namespace weir
