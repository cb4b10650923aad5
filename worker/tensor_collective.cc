// SPDX-License-Identifier: Apache-2.0
#include "worker/tensor_collective.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "weir/step_error.h"
#include "worker/torch_dtype.h"

namespace weir {

torch::Tensor RunWithoutGradient(StepParts& step, const torch::Tensor& tensor,
                                 CollectiveCall call) {
  if (!step.in_touch) {
    throw StepError(absl::FailedPreconditionError("a collective outside of a training step"));
  }
  step.weight_used = true;
  ++step.collectives_called;
  const torch::Tensor mine = tensor.detach().to(torch::kCPU).contiguous();
  call.dtype = DTypeOf("a tensor of a collective", mine.scalar_type());
  for (const int64_t size : mine.sizes()) call.shape.push_back(static_cast<uint64_t>(size));
  std::vector<std::byte> result;
  const absl::Status status = step.collectives->Run(
      call, {static_cast<const std::byte*>(mine.data_ptr()), mine.nbytes()}, result);
  if (!status.ok()) throw StepError(status);
  std::vector<int64_t> shape = mine.sizes().vec();
  if (call.op == ReduceOp::kGather) {
    shape.insert(shape.begin(), step.collectives->num_replicas_in_sync());
  }
  const torch::Tensor all = torch::empty(shape, mine.options());
  if (all.nbytes() != result.size()) {
    throw StepError(absl::InternalError(absl::StrCat(Describe(call), " gave ", result.size(),
                                                     " bytes in place of ", all.nbytes())));
  }
  if (!result.empty()) std::memcpy(all.data_ptr(), result.data(), result.size());
  return all.to(tensor.device());
}

namespace {

// What the backward pass knows of a collective.
struct ForwardCall : torch::CustomClassHolder {
  ForwardCall(std::shared_ptr<StepLink> step, CollectiveCall call)
      : step(std::move(step)), call(std::move(call)) {}

  StepParts& Parts() const {
    if (step->parts != nullptr) return *step->parts;
    throw StepError(absl::FailedPreconditionError(absl::StrCat(
        "the backward pass of a collective \"", call.name,
        "\" after the end of its step: call backward() in the step that made the graph")));
  }
  // Equal on all replicas, and no other collective's: what does not belong together does not meet.
  std::string NameOfBackward() const {
    constexpr size_t kMostOfName = 200;  // bytes; names of collectives have a limit
    return absl::StrCat("backward of collective ", place, " of step ", job_step, " ",
                        call.name.substr(0, kMostOfName));
  }

  std::shared_ptr<StepLink> step;
  CollectiveCall call;
  uint64_t job_step = 0;
  uint64_t place = 0;  // which collective of the step it was on this replica
};

// The same with zeros in all places, but with its graph: on every replica the same calls follow.
torch::Tensor Zeroed(const torch::Tensor& tensor) {
  return torch::nan_to_num(tensor, 0, 0, 0) * 0;
}

torch::Tensor Scaled(const torch::Tensor& tensor, double factor) {
  return factor == 0 ? Zeroed(tensor) : tensor * factor;
}

// What of the weighted sum of the replicas' gradients is that of this replica's contribution.
torch::Tensor ShareOf(const ForwardCall& forward, const torch::Tensor& sum,
                      const std::vector<torch::Tensor>& saved) {
  const Collectives& collectives = *forward.Parts().collectives;
  switch (forward.call.op) {
    case ReduceOp::kGather:
      return sum.select(0, collectives.index());
    case ReduceOp::kFirst:
      return collectives.index() == 0 ? sum : Zeroed(sum);
    case ReduceOp::kBroadcast:
      return collectives.index() == forward.call.source ? sum : Zeroed(sum);
    case ReduceOp::kMin:
    case ReduceOp::kMax: {
      // Between those that hold it, equally: as torch::amax does.
      const torch::Tensor holds = (saved[0] == saved[1]).to(sum.dtype());
      CollectiveCall call;
      call.name = absl::StrCat(forward.NameOfBackward(), ": holders");
      return sum * (holds / RunWithoutGradient(forward.Parts(), holds, call));
    }
    default:
      return sum;
  }
}

torch::Tensor GradientOf(const ForwardCall& forward, const torch::Tensor& upstream,
                         const std::vector<torch::Tensor>& saved) {
  const double weight = forward.call.weight;
  CollectiveCall call;
  call.name = forward.NameOfBackward();
  call.weight = weight;
  forward.Parts();  // the step goes on
  if (forward.call.op == ReduceOp::kMean) {
    call.op = ReduceOp::kMean;
    return RunCollective(forward.step, upstream, call);
  }
  const torch::Tensor sum = RunCollective(forward.step, Scaled(upstream, weight), call);
  return Scaled(ShareOf(forward, sum, saved), weight > 0 ? 1 / weight : 0);
}

class CollectiveFunction : public torch::autograd::Function<CollectiveFunction> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& tensor,
                               const c10::intrusive_ptr<ForwardCall>& call) {
    const torch::Tensor result = RunWithoutGradient(call->Parts(), tensor, call->call);
    context->saved_data["call"] = torch::IValue::make_capsule(call);
    if (call->call.op == ReduceOp::kMin || call->call.op == ReduceOp::kMax) {
      context->save_for_backward({tensor, result});
    }
    return result;
  }

  // Gradients that are undefined come as zeros.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto call =
        c10::static_intrusive_pointer_cast<ForwardCall>(context->saved_data["call"].toCapsule());
    return {GradientOf(*call, gradients[0], context->get_saved_variables()), torch::Tensor()};
  }
};

}  // namespace

torch::Tensor RunCollective(const std::shared_ptr<StepLink>& step, const torch::Tensor& tensor,
                            const CollectiveCall& call) {
  const auto forward = c10::make_intrusive<ForwardCall>(step, call);
  StepParts& parts = forward->Parts();
  if (!tensor.requires_grad() || !torch::GradMode::is_enabled()) {
    return RunWithoutGradient(parts, tensor, call);
  }
  forward->job_step = parts.step;
  forward->place = parts.collectives_called;
  return CollectiveFunction::apply(tensor, forward);
}

}  // namespace weir
