// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace weir {

// The first command or flag of a command line that `app` does not know, with what may have been
// meant, for a person; empty where it knows them all.
std::string UnknownWord(const CLI::App& app, int argc, const char* const* argv);

}  // namespace weir
