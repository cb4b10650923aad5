// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <spdlog/spdlog.h>

#include <utility>

#include "coordinator/turn.h"

namespace weir {

// A log line of a turn: written when the lock is released and what it tells of is durable.
template <typename... Args>
void LogLater(Turn& turn, spdlog::level::level_enum level, spdlog::format_string_t<Args...> format,
              Args&&... args) {
  turn.Later([level, line = fmt::format(format, std::forward<Args>(args)...)] {
    spdlog::log(level, line);
  });
}

}  // namespace weir
