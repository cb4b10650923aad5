// SPDX-License-Identifier: Apache-2.0
#include "weir/step_context.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "worker/data/batch_slices.h"
#include "worker/step_parts.h"
#include "worker/tensor_collective.h"

namespace weir {
namespace {

thread_local StepContext* current = nullptr;

std::string Joined(const std::string& name, const std::string& path) {
  return name.empty() || path.empty() ? name + path : absl::StrCat(name, "/", path);
}

// Tensor by tensor, in order, each under its path.
template <typename Function>
Nest ForEachTensor(const Nest& nest, const std::string& name, const Function& function) {
  std::vector<std::string> paths;
  nest.ForEach([&](const std::string& path, const torch::Tensor&) { paths.push_back(path); });
  size_t next = 0;
  return nest.Transform(
      [&](const torch::Tensor& tensor) { return function(tensor, Joined(name, paths[next++])); });
}

}  // namespace

StepContext::StepContext(StepParts& parts)
    : parts_(parts), link_(std::make_shared<StepLink>(StepLink{&parts})), outer_(current) {
  current = this;
}

StepContext::~StepContext() {
  current = outer_;
  link_->parts = nullptr;
}

StepContext* StepContext::Current() {
  return current;
}

uint64_t StepContext::step() const {
  return parts_.step;
}
uint64_t StepContext::global_step() const {
  return parts_.global_step;
}
uint32_t StepContext::replica_id() const {
  return parts_.collectives->replica_id();
}
uint32_t StepContext::num_replicas_in_sync() const {
  return parts_.collectives->num_replicas_in_sync();
}
uint32_t StepContext::num_sync_groups() const {
  return parts_.sync_groups;
}
at::Generator& StepContext::rng() {
  return parts_.rng;
}
torch::Device StepContext::device() const {
  return DeviceOf(parts_, 0);
}
torch::Device StepContext::LogicalDevice(uint32_t logical) const {
  return DeviceOf(parts_, logical);
}
double StepContext::weight() const {
  return parts_.weight;
}

void StepContext::SetWeight(double weight) {
  if (!std::isfinite(weight) || weight < 0) {
    throw StepError(absl::InvalidArgumentError(
        absl::StrCat("a replica's weight is a number, 0 or more, not ", weight)));
  }
  if (parts_.weight_used && weight != parts_.weight) {
    throw StepError(absl::FailedPreconditionError(
        "SetWeight comes before the step's first collective and its first Optimizer::Step"));
  }
  parts_.weight = weight;
}

void StepContext::CheckInTouch() const {
  if (parts_.in_touch) return;
  throw StepError(absl::FailedPreconditionError("a collective outside of a training step"));
}

torch::Tensor StepContext::Run(const torch::Tensor& tensor, ReduceOp op, uint32_t source,
                               const std::string& name, double weight) {
  CollectiveCall call;
  call.op = op;
  call.name = name;
  call.weight = weight;
  call.source = source;
  return RunCollective(link_, tensor, call);
}

torch::Tensor StepContext::AllReduce(const torch::Tensor& tensor, ReduceOp op,
                                     const std::string& name) {
  if (op == ReduceOp::kGather || op == ReduceOp::kBroadcast) {
    throw StepError(absl::InvalidArgumentError("AllReduce is SUM, MEAN, MIN, MAX or FIRST"));
  }
  return Run(tensor, op, 0, name, parts_.weight);
}

torch::Tensor StepContext::AllGather(const torch::Tensor& tensor, const std::string& name) {
  return Run(tensor, ReduceOp::kGather, 0, name, parts_.weight);
}

torch::Tensor StepContext::Broadcast(const torch::Tensor& tensor, uint32_t source,
                                     const std::string& name) {
  return Run(tensor, ReduceOp::kBroadcast, source, name, parts_.weight);
}

Nest StepContext::AllReduce(const Nest& nest, ReduceOp op, const std::string& name) {
  return ForEachTensor(nest, name, [&](const torch::Tensor& tensor, const std::string& path) {
    return AllReduce(tensor, op, path);
  });
}

Nest StepContext::AllGather(const Nest& nest, const std::string& name) {
  return ForEachTensor(nest, name, [&](const torch::Tensor& tensor, const std::string& path) {
    return AllGather(tensor, path);
  });
}

Nest StepContext::Broadcast(const Nest& nest, uint32_t source, const std::string& name) {
  return ForEachTensor(nest, name, [&](const torch::Tensor& tensor, const std::string& path) {
    return Broadcast(tensor, source, path);
  });
}

// This replica's rows of every tensor; `size`: how many there are in all.
Nest StepContext::PartOf(const Nest& items, int64_t& size) const {
  CheckInTouch();
  const absl::Status assembled = parts_.collectives->Assemble();
  if (!assembled.ok()) throw StepError(assembled);
  size = -1;
  items.ForEach([&](const std::string& path, const torch::Tensor& tensor) {
    const int64_t rows = tensor.dim() == 0 ? -1 : tensor.size(0);
    if (rows < 0 || (size >= 0 && rows != size)) {
      throw StepError(absl::InvalidArgumentError(
          absl::StrCat("items to share have one first dimension, but \"", path, "\" is of ",
                       rows < 0 ? "none" : absl::StrCat(rows), " where others are of ", size)));
    }
    size = rows;
  });
  if (size < 0) throw StepError(absl::InvalidArgumentError("there are no items to share"));
  const BatchSlice mine = weir::PartOf(static_cast<uint64_t>(size), parts_.collectives->index(),
                                       num_replicas_in_sync());
  return items.Transform([&](const torch::Tensor& tensor) {
    return tensor.slice(0, static_cast<int64_t>(mine.first), static_cast<int64_t>(mine.end));
  });
}

Nest StepContext::MapGather(const Nest& items, const Function& function, const std::string& name) {
  int64_t size = 0;
  const Nest mine = function(PartOf(items, size));
  const uint32_t replicas = num_replicas_in_sync();
  const auto rows_of = [&](uint32_t index) {
    const auto part = weir::PartOf(static_cast<uint64_t>(size), index, replicas);
    return static_cast<int64_t>(part.examples());
  };
  const int64_t most = rows_of(0);
  return ForEachTensor(mine, name, [&](const torch::Tensor& part, const std::string& path) {
    const int64_t rows = rows_of(parts_.collectives->index());
    if (part.dim() == 0 || part.size(0) != rows) {
      throw StepError(absl::InvalidArgumentError(
          absl::StrCat("MapGather \"", path, "\": the function was given ", rows,
                       " items, and must return as many in the first dimension of each tensor")));
    }
    std::vector<int64_t> shape = part.sizes().vec();
    shape[0] = most;
    const torch::Tensor padded = torch::zeros(shape, part.options().requires_grad(false));
    padded.slice(0, 0, rows).copy_(part.detach());
    const torch::Tensor all = AllGather(padded, path);
    std::vector<torch::Tensor> parts;
    for (uint32_t i = 0; i < replicas; ++i) parts.push_back(all[i].slice(0, 0, rows_of(i)));
    return torch::cat(parts);
  });
}

Nest StepContext::MapReduce(const Nest& items, const Function& function, ReduceOp op,
                            const std::string& name) {
  int64_t size = 0;
  const Nest part = PartOf(items, size);
  int64_t rows = 0;
  part.ForEach([&](const std::string&, const torch::Tensor& tensor) { rows = tensor.size(0); });
  const Nest mine = function(part);
  return ForEachTensor(mine, name, [&](const torch::Tensor& tensor, const std::string& path) {
    return Run(tensor.detach(), op, 0, path, static_cast<double>(rows));
  });
}

}  // namespace weir
