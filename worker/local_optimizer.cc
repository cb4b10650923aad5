// SPDX-License-Identifier: Apache-2.0
#include "worker/local_optimizer.h"

#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "weir/step_error.h"
#include "worker/libtorch_names.h"

namespace weir {
namespace {

constexpr char kNumbers[] = "numbers";
constexpr double kMostExact = 9007199254740992;  // 2^53: whole numbers up to it are exact in f64

// It computes outside of autocast, as an optimizer does.
class WithoutAutocast {
 public:
  WithoutAutocast() : cpu_(AutocastIsOn(at::kCPU)), accelerator_(AutocastIsOn(at::kCUDA)) {
    SetAutocast(at::kCPU, false);
    SetAutocast(at::kCUDA, false);
  }
  ~WithoutAutocast() {
    SetAutocast(at::kCPU, cpu_);
    SetAutocast(at::kCUDA, accelerator_);
  }
  WithoutAutocast(const WithoutAutocast&) = delete;
  WithoutAutocast& operator=(const WithoutAutocast&) = delete;

 private:
  const bool cpu_;
  const bool accelerator_;
};

bool IsFloating(const torch::Tensor& tensor) {
  return tensor.scalar_type() == torch::kFloat32 || tensor.scalar_type() == torch::kFloat64;
}

// How many numbers stand for it; -1: none can.
int64_t NumbersOf(const c10::IValue& value) {
  if (value.isTensor()) {
    const auto type = value.toTensor().scalar_type();
    const bool whole = c10::isIntegralType(type, /*includeBool=*/true);
    return whole ? value.toTensor().numel() : -1;
  }
  if (value.isInt() || value.isDouble() || value.isBool()) return 1;
  return value.isNone() ? 0 : -1;
}

// Same kind, and of a tensor the same shape and dtype.
bool Alike(const c10::IValue& a, const c10::IValue& b) {
  if (a.isTensor() != b.isTensor()) return false;
  if (!a.isTensor()) return a.tagKind() == b.tagKind();
  return a.toTensor().sizes() == b.toTensor().sizes() &&
         a.toTensor().scalar_type() == b.toTensor().scalar_type();
}

void PutNumbers(const c10::IValue& value, const torch::Tensor& numbers, int64_t first) {
  if (value.isNone()) return;
  if (value.isTensor()) {
    const torch::Tensor flat = value.toTensor().detach().flatten().to(torch::kFloat64);
    numbers.slice(0, first, first + flat.numel()).copy_(flat);
  } else {
    const double number = value.isBool()  ? static_cast<double>(value.toBool())
                          : value.isInt() ? static_cast<double>(value.toInt())
                                          : value.toDouble();
    numbers[first] = number;
  }
}

c10::IValue NumbersAs(const c10::IValue& sample, const torch::Tensor& numbers, int64_t first) {
  if (sample.isNone()) return {};
  if (sample.isTensor()) {
    const torch::Tensor& like = sample.toTensor();
    return numbers.slice(0, first, first + like.numel()).to(like.options()).view(like.sizes());
  }
  const double number = numbers[first].item<double>();
  if (sample.isBool()) return number != 0;
  if (sample.isInt()) return static_cast<int64_t>(number);
  return number;
}

std::string BytesOf(torch::serialize::OutputArchive& archive) {
  std::string bytes;
  archive.save_to([&](const void* data, size_t size) {
    bytes.append(static_cast<const char*>(data), size);
    return size;
  });
  return bytes;
}

}  // namespace

std::vector<torch::Tensor> LocalOptimizer::ParametersOf(const torch::optim::Optimizer& optimizer) {
  std::vector<torch::Tensor> parameters;
  for (const torch::optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) {
      const bool known =
          std::any_of(parameters.begin(), parameters.end(),
                      [&](const torch::Tensor& other) { return other.is_same(parameter); });
      if (!known && parameter.requires_grad()) parameters.push_back(parameter);
    }
  }
  return parameters;
}

LocalOptimizer::LocalOptimizer(const std::string& name,
                               std::unique_ptr<torch::optim::Optimizer> optimizer,
                               const std::vector<std::string>& names)
    : name_(name), optimizer_(std::move(optimizer)) {
  for (const torch::Tensor& parameter : ParametersOf(*optimizer_)) {
    parameters_.push_back({parameter, names[parameters_.size()], nullptr, {}, 0});
  }
  Learn();
}

void LocalOptimizer::Learn() {
  try {
    const std::vector<Values> first = Read();
    TryStep();
    Plan(Read());
    optimizer_->state().clear();
    Write(first);
    NoteWritten();
  } catch (const c10::Error& error) {
    throw StepError(absl::InvalidArgumentError(absl::StrCat(
        "optimizer \"", name_, "\" cannot be wrapped: it must step without a closure, and what it ",
        "keeps for a parameter must serialise: ", error.what_without_backtrace())));
  }
}

void LocalOptimizer::TryStep() {
  std::vector<torch::Tensor> before;
  Gradients zeros;
  for (const Parameter& parameter : parameters_) {
    before.push_back(parameter.tensor.detach().clone());
    zeros.push_back(torch::zeros_like(before.back()));
  }
  Step(zeros);
  const torch::NoGradGuard without_gradients;
  for (size_t i = 0; i < before.size(); ++i) parameters_[i].tensor.copy_(before[i]);
}

// Through an archive, since how a state is written is its own matter.
std::vector<LocalOptimizer::Values> LocalOptimizer::Read() const {
  torch::serialize::OutputArchive written;
  std::vector<bool> there;
  for (const Parameter& parameter : parameters_) {
    const auto state = optimizer_->state().find(StateKeyOf(parameter.tensor));
    there.push_back(state != optimizer_->state().end());
    if (!there.back()) continue;
    torch::serialize::OutputArchive of_parameter(written.compilation_unit());
    state->second->serialize(of_parameter);
    written.write(absl::StrCat("p", there.size() - 1), of_parameter);
  }
  std::vector<Values> values(there.size());
  if (std::count(there.begin(), there.end(), true) == 0) return values;
  const std::string bytes = BytesOf(written);
  torch::serialize::InputArchive read;
  read.load_from(bytes.data(), bytes.size());
  for (size_t i = 0; i < there.size(); ++i) {
    if (!there[i]) continue;
    torch::serialize::InputArchive of_parameter;
    read.read(absl::StrCat("p", i), of_parameter);
    for (const std::string& key : of_parameter.keys()) of_parameter.read(key, values[i][key]);
  }
  return values;
}

void LocalOptimizer::Plan(const std::vector<Values>& values) {
  int64_t numbers = 0;
  size_t known = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& parameter = parameters_[i];
    const auto state = optimizer_->state().find(StateKeyOf(parameter.tensor));
    if (state == optimizer_->state().end()) continue;
    ++known;
    parameter.sample = state->second->clone();
    parameter.there = numbers++;
    for (const auto& [key, value] : values[i]) {
      Entry entry{value, torch::kCPU, torch::MemoryFormat::Contiguous, {}, numbers};
      if (value.isTensor() && IsFloating(value.toTensor())) {
        entry.device = value.toTensor().device();
        entry.format = value.toTensor().suggest_memory_format();
        entry.tensor = torch::zeros(value.toTensor().sizes(), value.toTensor().scalar_type());
        entry.sample = entry.tensor;
        kept_[absl::StrCat(parameter.name, "/", key)] = entry.tensor;
      } else if (NumbersOf(value) >= 0) {
        numbers += NumbersOf(value);
      } else {
        throw StepError(absl::InvalidArgumentError(absl::StrCat(
            "optimizer \"", name_, "\": what it keeps as \"", key, "\" for ", parameter.name,
            " is a ", value.tagKind(), "; f32 and f64 tensors and numbers can be saved")));
      }
      parameter.entries.emplace(key, std::move(entry));
    }
  }
  if (known != optimizer_->state().size()) {
    throw StepError(absl::InvalidArgumentError(
        absl::StrCat("optimizer \"", name_, "\" keeps something that is of none of its trainable ",
                     "parameters, and could not be saved")));
  }
  numbers_ = torch::zeros({numbers}, torch::kFloat64);
  if (numbers > 0) kept_[kNumbers] = numbers_;
}

void LocalOptimizer::Write(const std::vector<Values>& values) {
  const torch::NoGradGuard without_gradients;
  for (auto& [name, tensor] : kept_) tensor.zero_();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    if (values[i].empty()) continue;
    bool alike = values[i].size() == parameter.entries.size();
    for (const auto& [key, value] : values[i]) {
      const auto entry = parameter.entries.find(key);
      alike = alike && entry != parameter.entries.end() && Alike(value, entry->second.sample);
      if (!alike) break;
      if (entry->second.tensor.defined()) {
        entry->second.tensor.copy_(value.toTensor());
      } else {
        PutNumbers(value, numbers_, entry->second.first);
      }
    }
    if (!alike) {
      throw StepError(absl::FailedPreconditionError(absl::StrCat(
          "optimizer \"", name_, "\" keeps other things for ", parameter.name, " than after its ",
          "first step: let it have all of them, in their shapes, from there on")));
    }
    numbers_[parameter.there] = 1;
  }
  if (numbers_.numel() > 0 && numbers_.abs().max().item<double>() > kMostExact) {
    throw StepError(absl::FailedPreconditionError(absl::StrCat(
        "optimizer \"", name_, "\" keeps a number above 2^53, which would not be saved exactly")));
  }
}

void LocalOptimizer::Save() {
  if (!written_) Write(Read());
}

void LocalOptimizer::Load() {
  torch::serialize::OutputArchive written;
  std::vector<size_t> there;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    if (parameter.sample == nullptr || numbers_[parameter.there].item<double>() == 0) continue;
    there.push_back(i);
    torch::serialize::OutputArchive of_parameter(written.compilation_unit());
    for (const auto& [key, entry] : parameter.entries) {
      of_parameter.write(key,
                         entry.tensor.defined()
                             ? c10::IValue(entry.tensor.to(entry.device).contiguous(entry.format))
                             : NumbersAs(entry.sample, numbers_, entry.first));
    }
    written.write(absl::StrCat("p", i), of_parameter);
  }
  optimizer_->state().clear();
  if (there.empty()) return;
  const std::string bytes = BytesOf(written);
  torch::serialize::InputArchive read;
  read.load_from(bytes.data(), bytes.size());
  for (const size_t i : there) {
    torch::serialize::InputArchive of_parameter;
    read.read(absl::StrCat("p", i), of_parameter);
    auto state = parameters_[i].sample->clone();
    state->serialize(of_parameter);
    optimizer_->state()[StateKeyOf(parameters_[i].tensor)] = std::move(state);
  }
}

void LocalOptimizer::Step(const Gradients& gradients) {
  if (std::exchange(written_, false)) Load();
  const WithoutAutocast as_it_is;
  const torch::NoGradGuard without_gradients;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor& parameter = parameters_[i].tensor;
    torch::Tensor& gradient = parameter.mutable_grad();
    gradient = gradients[i].defined() ? gradients[i].to(parameter.device()) : torch::Tensor();
  }
  optimizer_->step();
  for (Parameter& parameter : parameters_) parameter.tensor.mutable_grad() = torch::Tensor();
}

}  // namespace weir
