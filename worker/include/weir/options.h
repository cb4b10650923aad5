// SPDX-License-Identifier: Apache-2.0
// A model's options, as the job file gives them. C++17; no LibTorch, no protobuf, no gRPC.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace weir {

// Immutable, thread-safe.
class Options {
 public:
  Options() = default;
  explicit Options(std::map<std::string, std::string> values) : values_(std::move(values)) {}

  // The option as T (int64_t, double, bool, std::string, std::vector<int64_t>), or `fallback` where
  // the job does not give it. Throws StepError with InvalidArgument where the text is not of that
  // type.
  template <typename T>
  T Get(const std::string& name, const T& fallback) const {
    const auto found = values_.find(name);
    return found == values_.end() ? fallback : Parse(name, found->second, fallback);
  }

 private:
  // The last argument chooses the type.
  static int64_t Parse(const std::string& name, const std::string& text, int64_t);
  static double Parse(const std::string& name, const std::string& text, double);
  static bool Parse(const std::string& name, const std::string& text, bool);
  static std::string Parse(const std::string& name, const std::string& text, const std::string&);
  static std::vector<int64_t> Parse(const std::string& name, const std::string& text,
                                    const std::vector<int64_t>&);

  std::map<std::string, std::string> values_;
};

}  // namespace weir
