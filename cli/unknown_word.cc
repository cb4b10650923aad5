// SPDX-License-Identifier: Apache-2.0
#include "cli/unknown_word.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/nearest_word.h"

namespace weir {
namespace {

std::string Told(const CLI::App& app, const char* kind, absl::string_view word,
                 const std::vector<std::string>& known) {
  const CLI::App* parent = app.get_parent();
  const std::string program =
      parent == nullptr ? app.get_name() : absl::StrCat(parent->get_name(), " ", app.get_name());
  const std::string nearest = NearestWord(word, known);
  return absl::StrCat("unknown ", kind, " '", word, "'",
                      nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?"),
                      nearest.empty() ? "; " : " ", "`", program, " --help` lists all");
}

const CLI::App* Command(const CLI::App& app, const std::string& name) {
  const auto found = app.get_subcommands([&](const CLI::App* c) { return c->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command :
       app.get_subcommands([](const CLI::App* c) { return !c->get_group().empty(); })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> FlagNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

}  // namespace

std::string UnknownWord(const CLI::App& app, int argc, const char* const* argv) {
  const CLI::App* command = &app;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--") break;
    if (absl::StartsWith(word, "--")) {
      const std::string flag = word.substr(0, word.find('='));
      if (command->get_option_no_throw(flag) == nullptr) {
        return Told(*command, "flag", flag, FlagNames(*command));
      }
      continue;
    }
    // A command without commands of its own takes words and values of flags.
    const std::vector<std::string> names = CommandNames(*command);
    if (names.empty()) continue;
    const CLI::App* next = Command(*command, word);
    if (next == nullptr) return Told(*command, "command", word, names);
    command = next;
  }
  return "";
}

}  // namespace weir
