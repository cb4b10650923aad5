// SPDX-License-Identifier: Apache-2.0
// Parameters of every kind: each trains as it does in LibTorch alone, or is refused by name.
#include <gmock/gmock.h>
#include <torch/cuda.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <functional>

#include "tests/support/status_matchers.h"
#include "tests/unit/worker/sine_images.h"
#include "weir/replicator.h"
#include "worker/libtorch_names.h"
#include "worker/torch_runner.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A module made by a function, and its loss on the images.
struct Model {
  std::function<std::shared_ptr<torch::nn::Module>()> make;
  std::function<torch::Tensor(torch::nn::Module&, const torch::Tensor& images)> loss;
};

class OfModel final : public Replica {
 public:
  OfModel(ReplicaContext& context, const Model& model) : model_(model) {
    module_ = context.Add("m", torch::nn::ModuleHolder<torch::nn::Module>(model.make())).ptr();
    sgd_ = context.WrapOptimizer("sgd", module_->parameters(), torch::optim::SGDOptions(0.1));
  }
  Nest Train(StepContext&, const Nest& batch) override {
    sgd_.ZeroGrad();
    const torch::Tensor loss = model_.loss(*module_, batch["image"]);
    loss.backward();
    sgd_.Step();
    return {{"loss", loss.detach()}};
  }

 private:
  const Model model_;
  std::shared_ptr<torch::nn::Module> module_;
  Optimizer sgd_;
};

absl::StatusOr<std::unique_ptr<ReplicaRunner>> Create(const Model& model, uint32_t replicas = 1,
                                                      const std::string& precision = "f32",
                                                      const std::string& device = "cpu") {
  ModelRegistry models;
  models.Add("model", {[model](ReplicaContext& context) {
                         return std::make_unique<OfModel>(context, model);
                       },
                       nullptr});
  TorchRunnerOptions options;
  options.spec.mutable_model()->set_builtin("model");
  options.spec.set_seed(7);
  options.spec.set_replicas_per_worker(replicas);
  options.spec.set_precision(precision);
  options.spec.set_device(device);
  options.height = options.width = 4;
  return CreateTorchRunner(models, options);
}

// Plain gradient descent with rate 0.1, in the dtype of the declaration.
class Descent final : public GroupUpdates {
 public:
  explicit Descent(const Declaration& declaration) : declaration_(declaration) {}

  absl::Status Update(uint32_t, absl::Span<const PushItem> gradients,
                      absl::Span<const PullItem> weights, double) override {
    for (size_t i = 0; i < gradients.size(); ++i) {
      absent.push_back(gradients[i].data == nullptr);
      if (absent.back()) continue;
      EXPECT_EQ(gradients[i].bytes, weights[i].bytes);
      if (declaration_.variables[weights[i].variable].dtype == DType::kFloat64) {
        Descend<double>(gradients[i], weights[i]);
      } else {
        Descend<float>(gradients[i], weights[i]);
      }
    }
    return absl::OkStatus();
  }

  std::vector<bool> absent;

 private:
  template <typename T>
  static void Descend(const PushItem& gradient, const PullItem& weight) {
    for (size_t k = 0; k < weight.bytes / sizeof(T); ++k) {
      static_cast<T*>(weight.data)[k] -=
          static_cast<T>(0.1) * static_cast<const T*>(gradient.data)[k];
    }
  }

  const Declaration& declaration_;
};

// What LibTorch alone makes of the model in five steps.
std::vector<torch::Tensor> TrainedByLibTorch(const Model& model, ImageBatch batch) {
  torch::manual_seed(7);
  const auto module = model.make();
  // A tied one is listed twice, and would be stepped twice.
  std::vector<torch::Tensor> parameters;
  for (const torch::Tensor& parameter : module->parameters()) {
    const bool known = std::any_of(parameters.begin(), parameters.end(),
                                   [&](const auto& other) { return other.is_same(parameter); });
    if (!known) parameters.push_back(parameter);
  }
  torch::optim::SGD sgd(parameters, torch::optim::SGDOptions(0.1));
  const torch::Tensor images =
      torch::from_blob(batch.images.data(), {static_cast<int64_t>(batch.examples), 1, 4, 4});
  for (int step = 0; step < 5; ++step) {
    sgd.zero_grad();
    model.loss(*module, images).backward();
    sgd.step();
  }
  return parameters;
}

// Five steps of a process of so many replicas, all on the same images. The tensors are those of the
// newest replica's module.
void TrainAlike(ReplicaRunner& runner, const ImageBatch& images, Descent& descent) {
  const std::vector<ReplicaBatch> batches(runner.replicas(), images);
  for (uint64_t step = 0; step < 5; ++step) {
    ReplicaStep place;
    place.step = step;
    place.replicas_in_sync = runner.replicas();
    WEIR_ASSERT_OK(runner.Train(place, batches, descent));
  }
}

// The variables hold what LibTorch alone trains, for one replica and for two.
void ExpectAsInLibTorch(const Model& model) {
  const ImageBatch images = SineImages(6);
  const std::vector<torch::Tensor> expected = TrainedByLibTorch(model, images);
  for (const uint32_t replicas : {1u, 2u}) {
    WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(model, replicas));
    Descent descent(runner->declaration());
    TrainAlike(*runner, images, descent);
    const std::vector<PullItem> storage = runner->Storage();
    ASSERT_EQ(storage.size(), expected.size());
    for (size_t i = 0; i < storage.size(); ++i) {
      const torch::Tensor trained =
          torch::from_blob(storage[i].data, expected[i].sizes(), expected[i].dtype());
      EXPECT_TRUE(torch::allclose(trained, expected[i].contiguous(), 1e-5, 1e-6))
          << runner->declaration().variables[i].name << " of " << replicas << " replicas";
    }
  }
}

struct TiedImpl : torch::nn::Module {
  TiedImpl() {
    weight = register_parameter("weight", torch::randn({16, 16}) * 0.1);
    again = register_parameter("again", weight);
  }
  torch::Tensor weight, again;
};

torch::Tensor TiedLoss(torch::nn::Module& module, const torch::Tensor& images) {
  const auto parameters = module.named_parameters();
  const torch::Tensor x = images.flatten(1);
  return x.mm(parameters["weight"]).mm(parameters["again"]).sub(x).square().mean();
}

TEST(Parameters, ThatAreTiedAreOneVariable) {
  const Model model = {[] { return std::make_shared<TiedImpl>(); }, TiedLoss};
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(model));
  ASSERT_EQ(runner->declaration().variables.size(), 1u);
  EXPECT_EQ(runner->declaration().variables[0].name, "m/weight");
  ExpectAsInLibTorch(model);
}

struct AliasedImpl : torch::nn::Module {
  AliasedImpl() {
    const torch::Tensor weight = register_parameter("weight", torch::randn({16}));
    register_buffer("view", weight.detach());
  }
};

TEST(Parameters, ThatShareMemoryWithoutBeingOneAreRefusedByName) {
  const Model model = {[] { return std::make_shared<AliasedImpl>(); }, TiedLoss};
  EXPECT_THAT(Create(model).status(), HasStatus(absl::StatusCode::kInvalidArgument,
                                                HasSubstr("m/view shares memory with m/weight")));
}

TEST(Parameters, ThatAreFrozenAreStateOfTheFirst) {
  const Model model = {[] {
                         torch::nn::Linear net(16, 2);
                         net->bias.set_requires_grad(false);
                         return net.ptr();
                       },
                       [](torch::nn::Module& module, const torch::Tensor& images) {
                         return dynamic_cast<torch::nn::LinearImpl&>(module)
                             .forward(images.flatten(1))
                             .square()
                             .mean();
                       }};
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(model));
  const auto& variables = runner->declaration().variables;
  ASSERT_EQ(variables.size(), 2u);
  EXPECT_EQ(variables[0].group, 1u);
  EXPECT_EQ(variables[1].name, "m/bias");
  EXPECT_EQ(variables[1].group, 0u);
  EXPECT_EQ(variables[1].aggregation, Aggregation::kFirst);
  ExpectAsInLibTorch(model);
}

struct UnusedImpl : torch::nn::Module {
  UnusedImpl() {
    used = register_module("used", torch::nn::Linear(16, 2));
    register_module("unused", torch::nn::Linear(16, 2));
  }
  torch::nn::Linear used{nullptr};
};

TEST(Parameters, ThatNoLossReachesAreAbsentFromThePush) {
  const Model model = {
      [] { return std::make_shared<UnusedImpl>(); },
      [](torch::nn::Module& module, const torch::Tensor& images) {
        return dynamic_cast<UnusedImpl&>(module).used(images.flatten(1)).square().mean();
      }};
  ExpectAsInLibTorch(model);
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(model, 2));
  Descent descent(runner->declaration());
  WEIR_ASSERT_OK(runner->Train(ReplicaStep(), {SineImages(3), SineImages(3)}, descent));
  EXPECT_THAT(descent.absent, ElementsAre(false, false, true, true));
}

TEST(Parameters, InTheChannelsLastFormatKeepItAndAreDeclaredInTheUsualOrder) {
  std::vector<torch::Tensor> weights;
  const Model model = {
      [&] {
        torch::nn::Conv2d conv(torch::nn::Conv2dOptions(1, 4, 3));
        torch::nn::Conv2d next(torch::nn::Conv2dOptions(4, 2, 2));
        torch::nn::Sequential net(conv, next);
        for (torch::Tensor& weight : next->parameters()) {
          if (weight.dim() != 4) continue;
          weight.set_data(weight.contiguous(at::MemoryFormat::ChannelsLast));
          weights.push_back(weight);
        }
        return net.ptr();
      },
      [](torch::nn::Module& module, const torch::Tensor& images) {
        return dynamic_cast<torch::nn::SequentialImpl&>(module).forward(images).square().mean();
      }};
  ExpectAsInLibTorch(model);
  for (const torch::Tensor& weight : weights) {
    EXPECT_TRUE(weight.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_FALSE(weight.is_contiguous());
  }
}

TEST(Parameters, OfDoublePrecisionTrainInIt) {
  const Model model = {[] {
                         torch::nn::Linear net(16, 2);
                         net->to(torch::kFloat64);
                         return net.ptr();
                       },
                       [](torch::nn::Module& module, const torch::Tensor& images) {
                         return dynamic_cast<torch::nn::LinearImpl&>(module)
                             .forward(images.flatten(1).to(torch::kFloat64))
                             .square()
                             .mean();
                       }};
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(model));
  EXPECT_EQ(runner->declaration().variables[0].dtype, DType::kFloat64);
  ExpectAsInLibTorch(model);
}

TEST(Parameters, OfAPrecisionThatNoVariableHasAreRefusedByName) {
  const Model model = {[] {
                         torch::nn::Linear net(16, 2);
                         net->to(torch::kHalf);
                         return net.ptr();
                       },
                       TiedLoss};
  EXPECT_THAT(Create(model).status(), HasStatus(absl::StatusCode::kInvalidArgument,
                                                "variable m/weight cannot be of dtype Half"));
}

TEST(Parameters, WithSparseGradientsTrainAsWithDenseOnes) {
  const Model model = {
      [] { return torch::nn::Embedding(torch::nn::EmbeddingOptions(5, 3).sparse(true)).ptr(); },
      [](torch::nn::Module& module, const torch::Tensor&) {
        const torch::Tensor ids = torch::tensor({1l, 3l, 1l});
        return dynamic_cast<torch::nn::EmbeddingImpl&>(module).forward(ids).square().sum();
      }};
  ExpectAsInLibTorch(model);
}

// Products of bfloat16 have 8 bits: the outcome is near that of f32, and not the same.
TEST(Parameters, StayF32WhereStepsComputeInBf16) {
  torch::ScalarType computed = torch::kFloat32;
  const Model model = {
      [] { return torch::nn::Linear(16, 2).ptr(); },
      [&](torch::nn::Module& module, const torch::Tensor& images) {
        const torch::Tensor y =
            dynamic_cast<torch::nn::LinearImpl&>(module).forward(images.flatten(1));
        computed = y.scalar_type();
        return y.to(torch::kFloat32).square().mean();
      }};
  const ImageBatch images = SineImages(6);
  std::vector<torch::Tensor> trained;
  for (const char* precision : {"f32", "bf16"}) {
    WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(model, 1, precision));
    EXPECT_EQ(runner->declaration().variables[0].dtype, DType::kFloat32);
    Descent descent(runner->declaration());
    TrainAlike(*runner, images, descent);
    EXPECT_EQ(computed, precision == std::string("bf16") ? torch::kBFloat16 : torch::kFloat32);
    trained.push_back(torch::from_blob(runner->Storage()[0].data, {2, 16}).clone());
  }
  EXPECT_FALSE(torch::equal(trained[0], trained[1]));
  EXPECT_TRUE(torch::allclose(trained[0], trained[1], 5e-2, 5e-3));
  EXPECT_FALSE(AutocastIsOn(at::kCPU));
}

TEST(Parameters, OnAcceleratorsThatAreNotThereAreRefused) {
  if (torch::cuda::device_count() > 0) GTEST_SKIP() << "this machine has accelerators";
  const Model model = {[] { return torch::nn::Linear(16, 2).ptr(); }, TiedLoss};
  EXPECT_THAT(Create(model, 1, "f32", "cuda").status(),
              HasStatus(absl::StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("device: cuda"), HasSubstr("no accelerator"))));
}

}  // namespace
}  // namespace weir
