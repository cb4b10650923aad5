// SPDX-License-Identifier: Apache-2.0
#include "worker/replica_variables.h"

#include <torch/utils.h>

#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "worker/reduction.h"

namespace weir {
namespace {

auto FieldsOf(const VariableSpec& variable) {
  return std::tie(variable.name, variable.dtype, variable.shape, variable.group,
                  variable.aggregation);
}

std::string TextOf(const VariableSpec& variable) {
  return absl::StrCat(variable.name, " [", absl::StrJoin(variable.shape, ","), "]");
}

absl::Status CheckSame(const Declaration& first, const Declaration& other, size_t replica) {
  const size_t count = std::min(first.variables.size(), other.variables.size());
  for (size_t i = 0; i < count; ++i) {
    if (FieldsOf(first.variables[i]) == FieldsOf(other.variables[i])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("replica ", replica, " of the process declares ", TextOf(other.variables[i]),
                     " where the first declares ", TextOf(first.variables[i]),
                     ": all are built alike, in the same order"));
  }
  if (first.variables.size() == other.variables.size() &&
      first.groups.size() == other.groups.size()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("replica ", replica, " of the process declares ", other.variables.size(),
                   " variables and ", other.groups.size(), " optimizers, the first ",
                   first.variables.size(), " and ", first.groups.size(), ": all are built alike"));
}

ReduceOp OperationOf(const VariableSpec& variable) {
  const bool floating = variable.dtype == DType::kFloat32 || variable.dtype == DType::kFloat64;
  switch (variable.aggregation) {
    case Aggregation::kDefault:
      return floating ? ReduceOp::kMean : ReduceOp::kMax;
    case Aggregation::kMean:
      return ReduceOp::kMean;
    case Aggregation::kSum:
      return ReduceOp::kSum;
    case Aggregation::kMin:
      return ReduceOp::kMin;
    case Aggregation::kMax:
      return ReduceOp::kMax;
    case Aggregation::kFirst:
    case Aggregation::kLastWrite:
      return ReduceOp::kFirst;
  }
  return ReduceOp::kFirst;
}

// Values can be pulled into its memory as one run of bytes.
bool IsPlain(const torch::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.is_contiguous();
}

torch::Tensor PlainCopy(const torch::Tensor& tensor) {
  return tensor.detach().to(torch::kCPU).contiguous();
}

}  // namespace

void ReplicaVariables::Clear() {
  declaration_ = Declaration();
  landing_.clear();
  replicas_.clear();
  aggregated_.clear();
  kept_.clear();
}

absl::Status ReplicaVariables::Join(const ReplicaParts& parts) {
  const torch::NoGradGuard without_gradients;
  if (replicas_.empty()) {
    declaration_ = parts.declaration;
    for (size_t i = 0; i < parts.tensors.size(); ++i) {
      const torch::Tensor& tensor = parts.tensors[i];
      if (!tensor.is_non_overlapping_and_dense()) {
        return absl::InvalidArgumentError(absl::StrCat(
            declaration_.variables[i].name, ": its elements share memory or leave gaps; clone it"));
      }
      landing_.push_back(IsPlain(tensor) ? tensor.detach() : PlainCopy(tensor));
    }
  } else {
    WEIR_RETURN_IF_ERROR(CheckSame(declaration_, parts.declaration, replicas_.size()));
    for (size_t i = 0; i < parts.tensors.size(); ++i) {
      WEIR_RETURN_IF_ERROR(Share(i, parts.tensors[i]));
    }
  }
  replicas_.push_back(parts.tensors);
  return absl::OkStatus();
}

absl::Status ReplicaVariables::Share(size_t variable, torch::Tensor tensor) {
  const torch::Tensor& first = replicas_[0][variable];
  if (IsState(variable) || tensor.device() != first.device()) {
    tensor.copy_(first);
  } else {
    tensor.set_data(first.detach());
  }
  return absl::OkStatus();
}

PullItem ReplicaVariables::StorageOf(size_t variable) const {
  return {variable, landing_[variable].data_ptr(), landing_[variable].nbytes()};
}

std::vector<PullItem> ReplicaVariables::Storage() const {
  std::vector<PullItem> items;
  for (size_t i = 0; i < landing_.size(); ++i) items.push_back(StorageOf(i));
  return items;
}

void ReplicaVariables::Land(absl::Span<const PullItem> pulled) {
  const torch::NoGradGuard without_gradients;
  for (const PullItem& item : pulled) {
    const size_t variable = item.variable;
    for (const std::vector<torch::Tensor>& tensors : replicas_) {
      if (tensors[variable].data_ptr() == landing_[variable].data_ptr()) continue;
      // Of the tensor without its history: a weight is written, not computed.
      tensors[variable].detach().copy_(landing_[variable]);
    }
  }
}

void ReplicaVariables::TakeFromFirst(absl::Span<const size_t> variables) {
  std::vector<PullItem> items;
  for (const size_t variable : variables) {
    const torch::Tensor& tensor = replicas_[0][variable];
    if (tensor.data_ptr() != landing_[variable].data_ptr()) {
      const torch::NoGradGuard without_gradients;
      landing_[variable].copy_(tensor.detach());
    }
    items.push_back(StorageOf(variable));
  }
  Land(items);
}

std::vector<PushItem> ReplicaVariables::State() {
  aggregated_.resize(landing_.size());
  std::vector<PushItem> items;
  for (size_t i = 0; i < landing_.size(); ++i) {
    if (!IsState(i)) continue;
    const VariableSpec& variable = declaration_.variables[i];
    std::vector<torch::Tensor> values;  // hold what the contributions point to
    std::vector<Contribution> contributions;
    for (const std::vector<torch::Tensor>& tensors : replicas_) {
      values.push_back(PlainCopy(tensors[i]));
      contributions.push_back({values.back().data_ptr(), 1});
    }
    aggregated_[i] = torch::empty_like(landing_[i]);
    Combine(OperationOf(variable), variable.dtype, variable.elements(), contributions,
            aggregated_[i].data_ptr());
    items.push_back({i, aggregated_[i].data_ptr(), aggregated_[i].nbytes()});
  }
  return items;
}

void ReplicaVariables::KeepState() {
  kept_.clear();
  for (const std::vector<torch::Tensor>& tensors : replicas_) {
    std::vector<torch::Tensor>& kept = kept_.emplace_back(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (IsState(i)) kept[i] = tensors[i].detach().clone();
    }
  }
}

void ReplicaVariables::RestoreState() {
  const torch::NoGradGuard without_gradients;
  for (size_t replica = 0; replica < kept_.size(); ++replica) {
    for (size_t i = 0; i < kept_[replica].size(); ++i) {
      if (IsState(i)) replicas_[replica][i].detach().copy_(kept_[replica][i]);
    }
  }
  kept_.clear();
}

}  // namespace weir
