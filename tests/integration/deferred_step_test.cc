// SPDX-License-Identifier: Apache-2.0
// Optimizer steps whose weights nobody waits for in the step, and modules that follow others: whole
// jobs of one process.
#include <gmock/gmock.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/integration/small_training.h"
#include "tests/support/status_matchers.h"
#include "weir/replicator.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void Expect(bool holds, const std::string& claim) {
  if (!holds) throw StepError(absl::InternalError(absl::StrCat("not so: ", claim)));
}

torch::Tensor LossOf(const torch::Tensor& scores, const Nest& batch) {
  return torch::nn::functional::cross_entropy(scores, batch["label"]);
}

// A weight that is registered twice, a layer that nothing uses, one with a frozen bias.
struct OddImpl : torch::nn::Module {
  OddImpl()
      : weight(register_parameter("weight", torch::randn({64, 64}) * 0.1)),
        again(register_parameter("again", weight)),
        unused(register_module("unused", torch::nn::Linear(3, 3))),
        out(register_module("out", torch::nn::Linear(64, 4))) {
    out->bias.set_requires_grad(false);
  }
  torch::Tensor forward(const torch::Tensor& images) {
    return out(torch::relu(torch::relu(images.mm(weight)).mm(again)));
  }
  torch::Tensor weight, again;
  torch::nn::Linear unused, out;
};
TORCH_MODULE(Odd);

// The option `how`: step, deferred, minimize. The two steps come when both losses are there.
class TwoOptimizers final : public Replica {
 public:
  explicit TwoOptimizers(ReplicaContext& context)
      : how_(context.options().Get("how", std::string("step"))),
        poisoned_(context.options().Get("poisoned", int64_t{-1})),
        odd_(context.Add("odd", Odd())),
        head_(context.Add("head", torch::nn::Linear(4, 4))),
        first_(context.WrapOptimizer("first", odd_->parameters(), Options())),
        second_(context.WrapOptimizer("second", head_->parameters(),
                                      torch::optim::AdamOptions(0.01))) {}

  Nest Train(StepContext& context, const Nest& batch) override {
    const torch::Tensor before = head_->weight.detach().clone();
    if (last_.defined() && how_ != "step") {
      Expect(!before.equal(last_), "the weights of the step before have come");
    }
    const torch::Tensor scores = odd_(dropout_(batch["image"].flatten(1)));
    torch::Tensor loss = LossOf(scores, batch);
    if (static_cast<int64_t>(context.step()) == poisoned_) {
      loss = loss * std::numeric_limits<double>::infinity();
    }
    const torch::Tensor of_head = LossOf(head_(scores.detach()), batch);
    if (how_ == "minimize") {
      first_.Minimize(loss);
      second_.Minimize(of_head);
    } else {
      const StepTiming timing = how_ == "deferred" ? kDeferred : kAtOnce;
      first_.ZeroGrad();
      second_.ZeroGrad();
      loss.backward();
      of_head.backward();
      first_.Step(timing);
      second_.Step(timing);
    }
    for (const auto* module : {static_cast<torch::nn::Module*>(odd_.get()),
                               static_cast<torch::nn::Module*>(head_.get())}) {
      for (const torch::Tensor& parameter : module->parameters()) {
        Expect(!parameter.grad().defined(), "gradients are handed over");
      }
    }
    if (how_ != "step") Expect(head_->weight.equal(before), "weights stay until the next Run");
    last_ = before;
    return {{"loss", loss.detach()}};
  }
  Nest Evaluate(StepContext&, const Nest& batch) override {
    const torch::Tensor loss = LossOf(odd_(batch["image"].flatten(1)), batch);
    return {{"loss", loss}};
  }

 private:
  static torch::optim::SGDOptions Options() { return torch::optim::SGDOptions(0.05).momentum(0.9); }

  const std::string how_;
  const int64_t poisoned_;
  Odd odd_;
  torch::nn::Linear head_;
  Optimizer first_, second_;
  torch::nn::Dropout dropout_{0.2};
  torch::Tensor last_;
};

template <typename Class>
absl::StatusOr<Trained> Train(v1::JobSpec spec) {
  spec.clear_optimizers();
  spec.mutable_model()->clear_builtin();
  spec.mutable_model()->mutable_options()->erase("hidden");
  spec.mutable_model()->set_replica("own");
  ModelRegistry models;
  models.SetReplica(ReplicaClassOf<Class>());
  return TrainLocally(spec, models);
}

v1::JobSpec Job(uint32_t replicas, const std::string& how = "step") {
  v1::JobSpec spec = SmallJob("deferred", {});
  spec.mutable_length()->set_steps(20);
  spec.set_replicas_per_worker(replicas);
  spec.set_deterministic(true);
  spec.mutable_evaluate()->mutable_every()->set_steps(7);
  (*spec.mutable_model()->mutable_options())["how"] = how;
  return spec;
}

class DeferredStep : public testing::TestWithParam<uint32_t> {};

TEST_P(DeferredStep, EqualsOneThatIsWaitedForBitForBit) {
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained waited, Train<TwoOptimizers>(Job(GetParam())));
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained deferred,
                            Train<TwoOptimizers>(Job(GetParam(), "deferred")));
  EXPECT_EQ(deferred.values, waited.values);
  EXPECT_EQ(deferred.summary.test_loss, waited.summary.test_loss);
}

TEST_P(DeferredStep, ThatMinimizesEqualsBackwardAndStepBitForBit) {
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained waited, Train<TwoOptimizers>(Job(GetParam())));
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained minimized,
                            Train<TwoOptimizers>(Job(GetParam(), "minimize")));
  EXPECT_EQ(minimized.values, waited.values);
}

// The head's loss is of what the body gives, so that its backward pass could fill the body's
// gradients too; and both have some before it.
class HeadThroughBody final : public Replica {
 public:
  explicit HeadThroughBody(ReplicaContext& context)
      : minimizes_(context.options().Get("how", std::string("step")) == "minimize"),
        body_(context.Add("body", torch::nn::Linear(64, 4))),
        head_(context.Add("head", torch::nn::Linear(4, 4))),
        of_body_(context.WrapOptimizer("body", body_->parameters(), Options())),
        of_head_(context.WrapOptimizer("head", head_->parameters(), Options())) {}

  Nest Train(StepContext&, const Nest& batch) override {
    const torch::Tensor scores = body_(batch["image"].flatten(1));
    const torch::Tensor loss = LossOf(head_(scores), batch);
    (body_->weight.sum() + head_->weight.sum()).backward();
    const torch::Tensor before = body_->weight.grad().clone();
    if (minimizes_) {
      of_head_.Minimize(loss);
      Expect(body_->weight.grad().equal(before), "the gradients of others stay as they are");
      Expect(!body_->bias.grad().defined(), "the gradients of others are not filled");
    } else {
      of_head_.ZeroGrad();
      loss.backward();
      of_head_.Step();
    }
    of_body_.ZeroGrad();
    LossOf(body_(batch["image"].flatten(1)), batch).backward();
    of_body_.Step();
    return {};
  }

 private:
  static torch::optim::SGDOptions Options() { return torch::optim::SGDOptions(0.05); }

  const bool minimizes_;
  torch::nn::Linear body_, head_;
  Optimizer of_body_, of_head_;
};

TEST_P(DeferredStep, ThatMinimizesForgetsItsOwnGradientsAndLeavesThoseOfOthersAlone) {
  v1::JobSpec stepped = Job(GetParam());
  v1::JobSpec minimizing = Job(GetParam(), "minimize");
  for (v1::JobSpec* spec : {&stepped, &minimizing}) spec->clear_evaluate();
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained waited, Train<HeadThroughBody>(stepped));
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained minimized, Train<HeadThroughBody>(minimizing));
  EXPECT_EQ(minimized.values, waited.values);
}

TEST_P(DeferredStep, TellsLaterOfAGradientThatIsNotFinite) {
  for (const char* how : {"deferred", "minimize"}) {
    v1::JobSpec spec = Job(GetParam(), how);
    (*spec.mutable_model()->mutable_options())["poisoned"] = "3";
    EXPECT_THAT(Train<TwoOptimizers>(spec).status(),
                HasStatus(absl::StatusCode::kInvalidArgument,
                          AllOf(HasSubstr("the gradient of 'odd/"), HasSubstr("step 3"))));
  }
  // Nobody begins another step to hear of it.
  v1::JobSpec spec = Job(GetParam(), "deferred");
  (*spec.mutable_model()->mutable_options())["poisoned"] = "19";
  EXPECT_THAT(Train<TwoOptimizers>(spec).status(),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("step 19")));
}

TEST_P(DeferredStep, TrainsInAsyncToo) {
  v1::JobSpec spec = Job(GetParam(), "minimize");
  spec.set_deterministic(false);
  spec.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  WEIR_EXPECT_OK(Train<TwoOptimizers>(spec));
}

// ---- targets ----

// What a target must hold at the beginning of each step follows from what its source held.
class Followed final : public Replica {
 public:
  explicit Followed(ReplicaContext& context)
      : net_(context.Add("net", torch::nn::Linear(64, 4))),
        sgd_(context.WrapOptimizer("sgd", net_->parameters(), torch::optim::SGDOptions(0.1))),
        third_(context.AddTarget("third", torch::nn::Linear(64, 4), net_, {/*every=*/3, 0})),
        average_(context.AddTarget("average", torch::nn::Linear(64, 4), net_, {0, /*decay=*/0.75})),
        deferred_(context.options().Get("how", std::string("step")) == "deferred") {}

  Nest Train(StepContext& context, const Nest& batch) override {
    const torch::Tensor weight = net_->weight.detach().clone();
    if (context.step() == 0) {
      expected_third_ = weight;
      expected_average_ = weight;
    }
    // Steps 0 and 1 of each three train.
    if (context.step() % 3 == 0) expected_third_ = weight;
    if (context.step() > 0 && (context.step() - 1) % 3 < 2) {
      expected_average_ = 0.75 * expected_average_ + 0.25 * weight;
    }
    Expect(third_->weight.equal(expected_third_),
           "it is what the source was after each third step");
    Expect(torch::allclose(average_->weight, expected_average_, 1e-5, 1e-7), "it is the average");
    Expect(!third_->is_training() && net_->is_training(), "targets do not train");
    const torch::Tensor loss = LossOf(net_(batch["image"].flatten(1)), batch) +
                               0.1 * LossOf(third_(batch["image"].flatten(1)), batch);
    if (context.step() % 3 < 2) {
      loss.backward();
      sgd_.Step(deferred_ ? kDeferred : kAtOnce);
    }
    return {{"loss", loss.detach()}};
  }

 private:
  torch::nn::Linear net_;
  Optimizer sgd_;
  torch::nn::Linear third_, average_;
  const bool deferred_;
  torch::Tensor expected_third_, expected_average_;
};

TEST_P(DeferredStep, TargetsFollowTheirSources) {
  for (const char* how : {"step", "deferred"}) {
    WEIR_ASSERT_OK_AND_ASSIGN(const Trained trained, Train<Followed>(Job(GetParam(), how)));
    EXPECT_EQ(trained.summary.steps, 20u);
  }
}

INSTANTIATE_TEST_SUITE_P(Replicas, DeferredStep, testing::Values(1, 4));

class Misled final : public Replica {
 public:
  explicit Misled(ReplicaContext& context) {
    const std::string how = context.options().Get("how", std::string());
    torch::nn::Linear net(2, 2);
    if (how != "not added") context.Add("net", net);
    TargetOptions options{5, 0};
    if (how == "both") options.decay = 0.5;
    if (how == "neither") options.every = 0;
    if (how == "decay") options = {0, 1.5};
    context.AddTarget("t", how == "itself" ? net : torch::nn::Linear(2, how == "shape" ? 3 : 2),
                      net, options);
  }
};

TEST(Target, ThatCannotFollowIsRefusedByName) {
  const auto refused = [](const std::string& how) { return Train<Misled>(Job(1, how)).status(); };
  const auto says = [](const std::string& what) {
    return HasStatus(absl::StatusCode::kInvalidArgument,
                     AllOf(HasSubstr("target \"t\""), HasSubstr(what)));
  };
  EXPECT_THAT(refused("both"), says("either"));
  EXPECT_THAT(refused("neither"), says("either"));
  EXPECT_THAT(refused("decay"), says("between 0 and 1, not 1.5"));
  EXPECT_THAT(refused("shape"), says("\"weight\" of the same shape"));
  EXPECT_THAT(refused("not added"), says("not part of a module"));
  EXPECT_THAT(refused("itself"), says("it is its source"));
}

}  // namespace
}  // namespace weir
