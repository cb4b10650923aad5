// SPDX-License-Identifier: Apache-2.0
#include "worker/local_step.h"

#include <torch/utils.h>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "rpc/errors.h"
#include "worker/local_optimizer.h"
#include "worker/replica_variables.h"
#include "worker/tensor_collective.h"
#include "worker/torch_replica.h"

namespace weir {
namespace {

std::string NameOf(const OptimizerLink& link) {
  return absl::StrCat("optimizer \"", link.name, "\"");
}

// Parameters, then what is kept for them.
std::vector<size_t> VariablesOf(const OptimizerLink& link) {
  std::vector<size_t> variables = link.variables;
  variables.insert(variables.end(), link.kept.begin(), link.kept.end());
  return variables;
}

// As they are pushed.
std::vector<PushItem> ItemsOf(const OptimizerLink& link, bool present) {
  std::vector<PushItem> items;
  for (const size_t variable : VariablesOf(link)) {
    const PullItem at = link.step->variables->StorageOf(variable);
    items.push_back({variable, present ? at.data : nullptr, present ? at.bytes : 0});
  }
  return items;
}

// What a replica brings to a meeting about one local optimizer.
struct Brought {
  ReplicaParts& parts;
  const OptimizerLink& link;
  torch::Tensor values;
};

const Brought& FirstOf(absl::Span<const void* const> contributions) {
  return *static_cast<const Brought*>(contributions[0]);
}

void Meet(StepParts& step, const std::string& call, const Brought& brought,
          const std::function<void(const Brought& first)>& work) {
  const absl::Status status = step.meeting->Meet(
      step.replica, call, &brought, [&](absl::Span<const void* const> contributions) {
        return CatchErrors(call, [&] { work(FirstOf(contributions)); });
      });
  if (!status.ok()) throw StepError(status);
}

// Those of one dtype, one after another.
torch::Tensor Joined(const ReplicaParts& parts, const OptimizerLink& link, c10::ScalarType dtype) {
  std::vector<torch::Tensor> flat;
  for (const size_t variable : VariablesOf(link)) {
    const torch::Tensor tensor = parts.tensors[variable].detach();
    if (tensor.scalar_type() == dtype) flat.push_back(tensor.flatten().to(torch::kCPU));
  }
  return flat.empty() ? torch::Tensor() : torch::cat(flat);
}

void Split(const Brought& first) {
  const torch::NoGradGuard without_gradients;
  int64_t begin = 0;
  for (const size_t variable : VariablesOf(first.link)) {
    const torch::Tensor tensor = first.parts.tensors[variable].detach();
    if (tensor.scalar_type() != first.values.scalar_type()) continue;
    const int64_t end = begin + tensor.numel();
    tensor.copy_(first.values.slice(0, begin, end).view(tensor.sizes()));
    begin = end;
  }
  first.parts.step.variables->TakeFromFirst(VariablesOf(first.link));
  first.link.local->NoteWritten();
}

void Share(ReplicaParts& parts, const OptimizerLink& link, uint32_t source) {
  StepParts& step = parts.step;
  const std::string call = absl::StrCat("state of ", NameOf(link));
  Meet(step, call, {parts, link, {}}, [](const Brought& first) { first.link.local->Save(); });
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    const torch::Tensor mine = Joined(parts, link, dtype);
    if (!mine.defined()) continue;
    CollectiveCall broadcast;
    broadcast.op = ReduceOp::kBroadcast;
    broadcast.name = call;
    broadcast.source = source;
    Meet(step, call, {parts, link, RunWithoutGradient(step, mine, broadcast)}, Split);
  }
}

}  // namespace

void ShareLocalOptimizers(ReplicaParts& parts) {
  StepParts& step = parts.step;
  bool assembled = false;
  for (const std::shared_ptr<OptimizerLink>& link : parts.links) {
    if (link->local == nullptr) continue;
    if (!std::exchange(assembled, true)) {
      const absl::Status status = step.collectives->Assemble();
      if (!status.ok()) throw StepError(status);
    }
    const auto elder = step.collectives->elder();
    if (elder.has_value()) Share(parts, *link, *elder);
  }
  // The step function may still set its weight: no mean has been taken.
  step.weight_used = false;
}

Gradients GradientsToStepOn(const OptimizerLink& link, Gradients gradients) {
  StepParts& step = *link.step;
  const bool clips = link.clip.value > 0 || link.clip.global_norm > 0;
  gradients = clips ? ClippedMean(step, link.name, link.clip, link.parameters, std::move(gradients))
                    : MeanOverReplicas(step, link.name, link.parameters, gradients);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const torch::Tensor bad = gradients[i].isfinite().logical_not().flatten().nonzero();
    if (bad.numel() == 0) continue;
    const auto element = static_cast<uint64_t>(bad[0][0].item<int64_t>());
    throw StepError(NotFinite(link.names[i], element, WorkerId{}, step.step));
  }
  return gradients;
}

absl::Status StepLocally(OptimizerLink& link, const Gradients& gradients) {
  StepParts& step = *link.step;
  const uint32_t group = link.groups.front();
  // All hold the same; one of them tells the servers.
  const bool tells = step.collectives->index() == 0;
  if (!step.updates->IsMade(group)) {
    WEIR_RETURN_IF_ERROR(CatchErrors(NameOf(link), [&] {
      link.local->Step(gradients);
      step.variables->TakeFromFirst(link.variables);
      if (tells) link.local->Save();
    }));
    link.told = tells;
  }
  return step.updates->Update(group, ItemsOf(link, tells), {}, tells ? 1 : 0);
}

absl::StatusOr<LocalValues> LocalValuesOf(const OptimizerLink& link) {
  WEIR_RETURN_IF_ERROR(CatchErrors(NameOf(link), [&] { link.local->Save(); }));
  return LocalValues{link.groups.front(), ItemsOf(link, /*present=*/true), link.told};
}

}  // namespace weir
