// SPDX-License-Identifier: Apache-2.0
#include "weir/options.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "weir/step_error.h"

namespace weir {
namespace {

[[noreturn]] void Refuse(const std::string& name, const std::string& text, const char* expected) {
  throw StepError(absl::InvalidArgumentError(
      absl::StrCat("model option ", name, ": expected ", expected, ", found \"", text, "\"")));
}

}  // namespace

int64_t Options::Parse(const std::string& name, const std::string& text, int64_t) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) Refuse(name, text, "a whole number");
  return value;
}

double Options::Parse(const std::string& name, const std::string& text, double) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value)) Refuse(name, text, "a number");
  return value;
}

bool Options::Parse(const std::string& name, const std::string& text, bool) {
  bool value = false;
  if (!absl::SimpleAtob(text, &value)) Refuse(name, text, "true or false");
  return value;
}

std::string Options::Parse(const std::string&, const std::string& text, const std::string&) {
  return text;
}

std::vector<int64_t> Options::Parse(const std::string& name, const std::string& text,
                                    const std::vector<int64_t>&) {
  std::vector<int64_t> values;
  for (const auto part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    values.push_back(Parse(name, std::string(part), int64_t{}));
  }
  return values;
}

}  // namespace weir
