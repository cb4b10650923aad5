// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace weir {

// The flag --log-level of a program, whose value is what SetUpLogging takes; `of` says whose
// messages it is about, where they are not the program's own.
inline void AddLogLevelFlag(CLI::App& app, std::string& level, const std::string& of = "") {
  app.add_option("--log-level", level, of + "trace, debug, info, warn, error or off")
      ->capture_default_str()
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}));
}

// The exit code where the program ends here: 0 after --help and --version, 2 where the command line
// is wrong, which it has said then.
inline std::optional<int> ParseCommandLine(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

}  // namespace weir
