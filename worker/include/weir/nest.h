// SPDX-License-Identifier: Apache-2.0
// C++17; no protobuf, no gRPC.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "weir/step_error.h"

namespace weir {

// Tensors, in lists and in maps by name, and these within each other: the input of a step and what
// it returns. Maps are in the order of their names.
//
//   Nest one = tensor;
//   Nest metrics = {{"loss", loss}, {"accuracy", accuracy}};
//   Nest list = {first, second};                // braces without names are a list, also of one
//   Nest deep = {{"eyes", {left, right}}, {"state", {{"speed", speed}}}};
//
// What is not there, or of another kind than asked for, throws StepError and names it. Used from
// one thread.
class Nest {
 public:
  using List = std::vector<Nest>;
  using Map = std::map<std::string, Nest>;

  Nest() = default;  // an empty map
  Nest(torch::Tensor tensor) : value_(std::move(tensor)) {}
  Nest(List list) : value_(std::move(list)) {}
  Nest(Map map) : value_(std::move(map)) {}
  inline Nest(std::initializer_list<std::pair<const std::string, Nest>> map);
  inline Nest(std::initializer_list<Nest> list);

  bool is_tensor() const { return std::holds_alternative<torch::Tensor>(value_); }
  bool is_list() const { return std::holds_alternative<List>(value_); }
  bool is_map() const { return std::holds_alternative<Map>(value_); }

  const torch::Tensor& tensor() const { return Get<torch::Tensor>("a tensor"); }
  const List& list() const { return Get<List>("a list"); }
  const Map& map() const { return Get<Map>("a map"); }

  inline const Nest& at(const std::string& name) const;
  inline const Nest& at(size_t index) const;
  // The tensor that is there.
  const torch::Tensor& operator[](const std::string& name) const { return at(name).tensor(); }
  const torch::Tensor& operator[](size_t index) const { return at(index).tensor(); }

  // Of a map.
  inline void Set(const std::string& name, Nest nest);
  Map::const_iterator begin() const { return map().begin(); }
  Map::const_iterator end() const { return map().end(); }

  // The same nest with `function(tensor)` in place of each tensor, in order.
  template <typename Function>
  Nest Transform(Function&& function) const {
    return Transformed("", [&](const std::string&, const torch::Tensor& tensor) {
      return torch::Tensor(function(tensor));
    });
  }
  // Calls `function(path, tensor)` for each tensor, in order; paths are like "eyes/0".
  template <typename Function>
  void ForEach(Function&& function) const {
    Transformed("", [&](const std::string& path, const torch::Tensor& tensor) {
      function(path, tensor);
      return tensor;
    });
  }

 private:
  template <typename T>
  const T& Get(const char* wanted) const {
    if (const T* value = std::get_if<T>(&value_)) return *value;
    throw StepError(
        absl::InvalidArgumentError(std::string("expected ") + wanted + " here, found " + kind()));
  }
  const char* kind() const { return is_tensor() ? "a tensor" : is_list() ? "a list" : "a map"; }

  template <typename Function>
  Nest Transformed(const std::string& path, const Function& function) const {
    if (is_tensor()) return function(path, tensor());
    const std::string folder = path.empty() ? "" : path + "/";
    if (is_list()) {
      List result;
      for (const Nest& nest : list()) {
        result.push_back(nest.Transformed(folder + std::to_string(result.size()), function));
      }
      return result;
    }
    Map result;
    for (const auto& [name, nest] : map()) result[name] = nest.Transformed(folder + name, function);
    return result;
  }

  std::variant<Map, List, torch::Tensor> value_;
};

inline Nest::Nest(std::initializer_list<std::pair<const std::string, Nest>> map)
    : value_(Map(map)) {}
inline Nest::Nest(std::initializer_list<Nest> list) : value_(List(list)) {}

inline const Nest& Nest::at(const std::string& name) const {
  const auto found = map().find(name);
  if (found != map().end()) return found->second;
  std::string names;
  for (const auto& entry : map()) names += (names.empty() ? "" : ", ") + entry.first;
  throw StepError(absl::NotFoundError("no tensor \"" + name + "\" here; there is: " + names));
}

inline const Nest& Nest::at(size_t index) const {
  if (index < list().size()) return list()[index];
  throw StepError(absl::NotFoundError("no element " + std::to_string(index) + " in a list of " +
                                      std::to_string(list().size())));
}

inline void Nest::Set(const std::string& name, Nest nest) {
  map();  // throws where it is none
  std::get<Map>(value_)[name] = std::move(nest);
}

}  // namespace weir
