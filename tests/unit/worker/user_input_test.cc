// SPDX-License-Identifier: Apache-2.0
// MakeInput of a replica class: what it is told, and what becomes of what it gives.
#include "worker/user_input.h"

#include <gmock/gmock.h>
#include <torch/data/transforms/base.h>
#include <torch/data/transforms/stack.h>
#include <torch/utils.h>

#include <stdexcept>

#include "absl/strings/str_join.h"
#include "tests/support/manual_executor.h"
#include "tests/support/status_matchers.h"
#include "weir/replicator.h"
#include "weir/torch_dataset.h"
#include "worker/data/permutation.h"
#include "worker/input_pipelines.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using torch::data::Example;

// Example i is {i, i} with the target 10 i.
class Tens : public torch::data::datasets::Dataset<Tens> {
 public:
  explicit Tens(size_t size = 20) : size_(size) {}
  Example<> get(size_t index) override {
    if (index == 13) throw std::runtime_error("picture 13 is torn");
    return {torch::full({2}, static_cast<int64_t>(index)),
            torch::tensor(10 * static_cast<int64_t>(index))};
  }
  torch::optional<size_t> size() const override { return size_; }

 private:
  const size_t size_;
};

struct MinusOne : torch::data::transforms::Transform<Example<>, Example<>> {
  Example<> apply(Example<> example) override { return {example.data - 1, example.target}; }
};

// Adds what the default generator draws, to each example.
struct Noise : torch::data::transforms::Transform<Example<>, Example<>> {
  Example<> apply(Example<> example) override {
    return {example.data + torch::rand({2}), example.target};
  }
};

class Unsized : public torch::data::datasets::Dataset<Unsized> {
 public:
  Example<> get(size_t) override { return {}; }
  torch::optional<size_t> size() const override { return torch::nullopt; }
};

std::unique_ptr<DatasetSlices> SlicesOf(const Input& input, DatasetSlices::Options options = {}) {
  auto slices = DatasetSlices::Create(input.dataset(), options);
  EXPECT_THAT(slices, IsOk());
  return *std::move(slices);
}

std::vector<int64_t> Numbers(const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.flatten().contiguous();
  return {flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel()};
}

DatasetSlices::Options Plain() {
  DatasetSlices::Options options;
  options.shuffled = false;
  return options;
}

TEST(FromDataset, ADatasetOfExamplesIsStacked) {
  const auto slices = SlicesOf(FromDataset(Tens()), Plain());
  EXPECT_EQ(slices->size(), 20u);
  WEIR_ASSERT_OK_AND_ASSIGN(const ReplicaBatch batch, slices->Read({0, 3, 5}));
  EXPECT_EQ(batch.examples, 2u);
  EXPECT_EQ((*batch.input)["data"].sizes(), (std::vector<int64_t>{2, 2}));
  EXPECT_THAT(Numbers((*batch.input)["data"]), ElementsAre(3, 3, 4, 4));
  EXPECT_THAT(Numbers((*batch.input)["target"]), ElementsAre(30, 40));
}

TEST(FromDataset, TransformsAreAppliedAndNamesAreTheUsers) {
  DatasetOptions names;
  names.data = "image";
  names.target = "label";
  const auto slices = SlicesOf(
      FromDataset(Tens().map(MinusOne()).map(torch::data::transforms::Stack<>()), names), Plain());
  WEIR_ASSERT_OK_AND_ASSIGN(const ReplicaBatch batch, slices->Read({0, 3, 5}));
  EXPECT_THAT(Numbers((*batch.input)["image"]), ElementsAre(2, 2, 3, 3));
  EXPECT_THAT(Numbers((*batch.input)["label"]), ElementsAre(30, 40));
}

TEST(FromDataset, AFunctionOfTheUsersMakesTheNest) {
  const auto slices = SlicesOf(FromDataset(Tens(),
                                           [](std::vector<Example<>> batch, const DatasetOptions&) {
                                             return Nest{{"first", batch[0].data.unsqueeze(0)}};
                                           }),
                               Plain());
  WEIR_ASSERT_OK_AND_ASSIGN(const ReplicaBatch batch, slices->Read({0, 3, 4}));
  EXPECT_THAT(Numbers((*batch.input)["first"]), ElementsAre(3, 3));
}

// By (seed, epoch) as the built-in data: position p of epoch e is permutation(seed, e)[p].
TEST(FromDataset, ASliceIsOfTheEpochsPermutation) {
  DatasetSlices::Options options;
  options.seed = 7;
  const auto slices = SlicesOf(FromDataset(Tens(8)), options);
  for (const uint64_t epoch : {0, 1, 0}) {
    WEIR_ASSERT_OK_AND_ASSIGN(const ReplicaBatch batch, slices->Read({epoch, 2, 6}));
    std::vector<int64_t> expected;
    for (const uint64_t index : Permutation(7, epoch, 8)) {
      expected.push_back(10 * static_cast<int64_t>(index));
    }
    EXPECT_THAT(Numbers((*batch.input)["target"]),
                ElementsAreArray(expected.begin() + 2, expected.begin() + 6));
  }
}

TEST(FromDataset, WhatTransformsDrawDependsOnSeedAndSliceAlone) {
  DatasetSlices::Options options;
  options.seed = 7;
  const auto read = [&](uint64_t first, uint64_t drawn_before) {
    const auto slices = SlicesOf(FromDataset(Tens(8).map(Noise())), options);
    torch::manual_seed(drawn_before);
    return *(*slices->Read({0, first, first + 2})).input;
  };
  EXPECT_TRUE(read(2, 1)["data"].equal(read(2, 99)["data"]));
  EXPECT_FALSE(read(2, 1)["data"].frac().equal(read(4, 1)["data"].frac()));
}

TEST(FromDataset, AnEmptyBatchHasTheShapesOfOthers) {
  const auto slices = SlicesOf(FromDataset(Tens()));
  WEIR_ASSERT_OK_AND_ASSIGN(const ReplicaBatch batch, slices->Read({0, 4, 4}));
  EXPECT_EQ(batch.examples, 0u);
  EXPECT_EQ((*batch.input)["data"].sizes(), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ((*batch.input)["target"].sizes(), (std::vector<int64_t>{0}));
}

TEST(FromDataset, WhatIsWrongWithADatasetIsSaid) {
  EXPECT_THAT(DatasetSlices::Create(FromDataset(Unsized()).dataset(), {}).status(),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("FromCallable")));
  EXPECT_THAT(DatasetSlices::Create(FromDataset(Tens(0)).dataset(), {}).status(),
              HasStatus(absl::StatusCode::kInvalidArgument, "the dataset has no examples"));
  EXPECT_THAT(SlicesOf(FromDataset(Tens()), Plain())->Read({0, 12, 14}).status(),
              HasStatus(absl::StatusCode::kInternal, "Dataset::Get: picture 13 is torn"));
  const auto gives = [](Nest nest) {
    return SlicesOf(FromDataset(Tens(), [nest](std::vector<Example<>>,
                                               const DatasetOptions&) { return nest; }),
                    Plain())
        ->Read({0, 0, 3})
        .status();
  };
  EXPECT_THAT(gives(torch::zeros({2})), HasStatus(absl::StatusCode::kInvalidArgument,
                                                  "Dataset::Get gave 2 examples for 3 indices"));
  EXPECT_THAT(gives({{"a", torch::zeros({3, 1})}, {"b", torch::zeros({1})}}),
              HasStatus(absl::StatusCode::kInvalidArgument,
                        "tensor \"b\" has 1 examples, and those before it 3"));
  EXPECT_THAT(gives({{"a", torch::tensor(1)}}),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("has no dimension")));
  EXPECT_THAT(gives(Nest()),
              HasStatus(absl::StatusCode::kInvalidArgument, "the batch has no tensor"));
}

TEST(FromCallable, ABatchWeighsItsFirstDimensionAndNoneEndsTheSource) {
  int calls = 0;
  CallableSource source(FromCallable([&](StopToken) -> std::optional<Nest> {
                          if (++calls == 2) return std::nullopt;
                          return torch::zeros({5, 2});
                        }).source());
  WEIR_ASSERT_OK_AND_ASSIGN(const ReplicaBatch batch, source.Next());
  EXPECT_EQ(batch.examples, 5u);
  EXPECT_EQ(batch.input->tensor().sizes(), (std::vector<int64_t>{5, 2}));
  EXPECT_THAT(source.Next().status(),
              HasStatus(absl::StatusCode::kOutOfRange, "the source has ended"));
}

TEST(FromCallable, ACallableLearnsOfTheStopWhileItWaits) {
  CallableSource source(FromCallable([&](StopToken stop) {
                          EXPECT_TRUE(stop.WaitFor(std::chrono::minutes(10)));
                          return torch::zeros({1});
                        }).source());
  source.Stop();
  WEIR_EXPECT_OK(source.Next());
}

// What MakeInput is told, as text.
std::vector<std::string>& Told() {
  static std::vector<std::string> told;
  return told;
}

struct MakesInput : Replica {
  explicit MakesInput(ReplicaContext&) {}
  static Input MakeInput(const InputContext& context) {
    Told().push_back(absl::StrCat(context.split() == Split::kTrain ? "train " : "evaluation ",
                                  context.pipeline_id(), "/", context.num_pipelines(), " batch ",
                                  context.PerReplicaBatch(77), " seed ", context.seed(), " ",
                                  context.options().Get("kind", std::string("dataset"))));
    const std::string kind = context.options().Get("kind", std::string("dataset"));
    const bool train = context.split() == Split::kTrain;
    if (kind == "throws") throw std::runtime_error("no connection");
    if (kind == "nothing") return Input();
    if (kind == "source" || (kind == "source-at-end" && !train)) {
      return FromCallable([](StopToken stop) {
        stop.WaitFor(std::chrono::minutes(10));
        return torch::zeros({1});
      });
    }
    return FromDataset(Tens(train ? 20 : 5));
  }
};

class OwnInputsTest : public testing::Test {
 protected:
  OwnInputsTest() {
    Told().clear();
    spec_.mutable_model()->set_replica("told");
    spec_.mutable_data()->set_format("dataset");
    spec_.set_train_examples(20);
    spec_.mutable_data()->mutable_batch()->set_global(30);
    spec_.set_workers(2);
    spec_.set_replicas_per_worker(2);
    spec_.set_seed(9);
  }
  absl::StatusOr<WorkerInputs> Make(const std::string& kind = "dataset") {
    (*spec_.mutable_model()->mutable_options())["kind"] = kind;
    return OwnInputs(spec_, rank_, class_, clock_);
  }
  std::string Mistake(const std::string& kind) {
    return std::string(Make(kind).status().message());
  }

  v1::JobSpec spec_;
  uint32_t rank_ = 1;
  const FakeClock clock_;
  ReplicaClass class_ = ReplicaClassOf<MakesInput>();
};

// 30 examples over 4 replicas: 7 each, rounded down.
TEST_F(OwnInputsTest, MakeInputIsCalledOnceForEachPipelineAndOnceForTheEvaluation) {
  WEIR_ASSERT_OK_AND_ASSIGN(const WorkerInputs inputs, Make());
  EXPECT_THAT(Told(), ElementsAre("train 1/2 batch 7 seed 9 dataset",
                                  "evaluation 1/2 batch 7 seed 9 dataset"));
  EXPECT_EQ(inputs.test->size(), 5u);
}

struct PerReplica : MakesInput {
  using MakesInput::MakesInput;
  static constexpr InputPipelines kInputPipelines = InputPipelines::kPerReplica;
};

TEST_F(OwnInputsTest, APipelineOfEachReplicaHasAnIdOfItsOwn) {
  class_ = ReplicaClassOf<PerReplica>();
  spec_.mutable_data()->clear_batch();
  spec_.mutable_data()->set_format("source");
  WEIR_ASSERT_OK_AND_ASSIGN(const WorkerInputs inputs, Make("source"));
  EXPECT_THAT(Told(),
              ElementsAre("train 2/4 batch 77 seed 9 source", "train 3/4 batch 77 seed 9 source"));
  EXPECT_EQ(inputs.test, nullptr);
}

struct SinglePipeline : MakesInput {
  using MakesInput::MakesInput;
  static constexpr InputPipelines kInputPipelines = InputPipelines::kSingle;
};

TEST_F(OwnInputsTest, ASingleOneIsThatOfTheOnlyWorker) {
  class_ = ReplicaClassOf<SinglePipeline>();
  EXPECT_THAT(CheckInput(spec_, class_),
              HasStatus(absl::StatusCode::kInvalidArgument,
                        HasSubstr("feeds the replicas of one process, and the job has 2 workers")));
  spec_.set_workers(1);
  rank_ = 0;
  WEIR_EXPECT_OK(CheckInput(spec_, class_));
  WEIR_ASSERT_OK(Make().status());
  EXPECT_THAT(Told()[0], HasSubstr("train 0/1 batch 15"));
}

TEST_F(OwnInputsTest, WrongUsesAreToldWhatToDo) {
  EXPECT_EQ(Mistake("throws"), "MakeInput of pipeline 1 of 2: no connection");
  EXPECT_EQ(Mistake("nothing"),
            "MakeInput gave no input to train on: return FromDataset(...) or FromCallable(...)");
  EXPECT_EQ(Mistake("source"),
            "MakeInput gave a source, and the job file says data.examples, which is for datasets: "
            "leave it out");
  EXPECT_THAT(Mistake("source-at-end"), HasSubstr("return a dataset where split() is kEvaluation"));
  spec_.set_train_examples(21);
  EXPECT_EQ(Mistake("dataset"),
            "MakeInput gave a dataset of 20 examples, and the job file has data.examples: 21: "
            "write data.examples: 20");
  spec_.mutable_data()->set_format("source");
  EXPECT_EQ(Mistake("dataset"),
            "MakeInput gave a dataset of 20 examples, and the job file has no data.examples: write "
            "data.examples: 20");
}

struct WithoutInput : Replica {
  explicit WithoutInput(ReplicaContext&) {}
};

TEST_F(OwnInputsTest, JobAndClassAgreeOnWhoGivesTheInput) {
  EXPECT_THAT(CheckInput(spec_, ReplicaClassOf<WithoutInput>()),
              HasStatus(absl::StatusCode::kInvalidArgument,
                        HasSubstr("\"told\" has no MakeInput: name the files of the images in "
                                  "data.train and data.test, or give it a `static weir::Input")));
  WEIR_EXPECT_OK(CheckInput(spec_, ReplicaClassOf<MakesInput>()));
  spec_.mutable_data()->set_format("idx");
  WEIR_EXPECT_OK(CheckInput(spec_, ReplicaClassOf<WithoutInput>()));
  EXPECT_THAT(CheckInput(spec_, ReplicaClassOf<MakesInput>()),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("leave out the one or the")));
}

}  // namespace
}  // namespace weir
