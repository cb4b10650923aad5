// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace weir {

// The flag --log-level of a program, whose value is what SetUpLogging takes; `of` says whose
// messages it is about, where they are not the program's own.
inline void AddLogLevelFlag(CLI::App& app, std::string& level, const std::string& of = "") {
  app.add_option("--log-level", level, of + "trace, debug, info, warn, error or off")
      ->capture_default_str()
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}));
}

}  // namespace weir
