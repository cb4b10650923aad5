// SPDX-License-Identifier: Apache-2.0
// Compiled as C++17: a user's program need not be C++20, and the public headers stand for
// themselves.
#include <gtest/gtest.h>

#include "weir/input.h"
#include "weir/job.h"
#include "weir/job_session.h"
#include "weir/nest.h"
#include "weir/optimizer.h"
#include "weir/options.h"
#include "weir/parameter_client.h"
#include "weir/reduce.h"
#include "weir/replica.h"
#include "weir/replica_class.h"
#include "weir/replicator.h"
#include "weir/run.h"
#include "weir/step_context.h"
#include "weir/step_error.h"
#include "weir/stop_token.h"
#include "weir/torch_dataset.h"
#include "weir/variable.h"

static_assert(__cplusplus < 202002L, "compiled as C++17");

#if defined(GOOGLE_PROTOBUF_VERSION) || defined(GRPCPP_GRPCPP_H)
#error "a public header includes protobuf or gRPC"
#endif

namespace weir {
namespace {

TEST(PublicHeaders, ANestIsReadByName) {
  const Nest nest = {{"image", torch::zeros({2, 3})}};
  EXPECT_EQ(nest["image"].size(1), 3);
  EXPECT_THROW(nest["label"], StepError);
}

Nest Metrics(const torch::Tensor& loss, const torch::Tensor& accuracy) {
  return {{"loss", loss}, {"accuracy", accuracy}};
}

// What it has, in order: "eyes/0=1 eyes/1=2".
std::string TextOf(const Nest& nest) {
  std::string text;
  nest.ForEach([&](const std::string& path, const torch::Tensor& tensor) {
    text += (text.empty() ? "" : " ") + path + "=" + std::to_string(tensor.item<int64_t>());
  });
  return text;
}

TEST(PublicHeaders, NestsAreWrittenInBraces) {
  const torch::Tensor one = torch::tensor(1);
  const torch::Tensor two = torch::tensor(2);
  const torch::Tensor three = torch::tensor(3);
  EXPECT_EQ(TextOf(one), "=1");
  EXPECT_EQ(TextOf(Metrics(one, two)), "accuracy=2 loss=1");
  EXPECT_EQ(TextOf({{"loss", one}}), "loss=1");
  EXPECT_EQ(TextOf({one, two, three}), "0=1 1=2 2=3");
  EXPECT_EQ(TextOf({{"eyes", {one, two}}, {"state", {{"speed", three}}}}),
            "eyes/0=1 eyes/1=2 state/speed=3");
  EXPECT_EQ(TextOf(Nest::List{one, Metrics(two, three)}), "0=1 1/accuracy=3 1/loss=2");
  EXPECT_EQ(TextOf({}), "");
}

TEST(PublicHeaders, ANestSaysWhatItIsAndNamesWhatIsNotThere) {
  const Nest nest = {{"eyes", {torch::tensor(1), torch::tensor(2)}}, {"speed", torch::tensor(3)}};
  EXPECT_TRUE(nest.is_map());
  EXPECT_TRUE(nest.at("eyes").is_list());
  EXPECT_EQ(nest.at("eyes")[1].item<int64_t>(), 2);
  EXPECT_EQ(nest["speed"].item<int64_t>(), 3);
  const auto error_of = [](const auto& function) -> std::string {
    try {
      function();
    } catch (const StepError& error) {
      return std::string(error.status().message());
    }
    return "nothing was thrown";
  };
  EXPECT_EQ(error_of([&] { nest["eyes"]; }), "expected a tensor here, found a list");
  EXPECT_EQ(error_of([&] { nest.at("eyes").at(2); }), "no element 2 in a list of 2");
  EXPECT_EQ(error_of([&] { nest.at("ears"); }), "no tensor \"ears\" here; there is: eyes, speed");
  EXPECT_EQ(error_of([&] { Nest(torch::tensor(1)).Set("x", nest); }),
            "expected a map here, found a tensor");
}

TEST(PublicHeaders, ANestIsTransformedTensorByTensor) {
  const Nest nest = {{"a", {torch::tensor(1), torch::tensor(2)}}, {"b", torch::tensor(3)}};
  const Nest doubled = nest.Transform([](const torch::Tensor& tensor) { return tensor * 2; });
  EXPECT_EQ(TextOf(doubled), "a/0=2 a/1=4 b=6");
  EXPECT_EQ(TextOf(nest), "a/0=1 a/1=2 b=3");
}

TEST(PublicHeaders, OptionsAreReadWithTheirType) {
  const Options options({{"depth", "14"}, {"rate", "1e-3"}, {"wide", "true"}, {"sizes", "3,4"}});
  EXPECT_EQ(options.Get<int64_t>("depth", 8), 14);
  EXPECT_EQ(options.Get<int64_t>("width", 16), 16);
  EXPECT_EQ(options.Get<double>("rate", 0), 1e-3);
  EXPECT_TRUE(options.Get<bool>("wide", false));
  EXPECT_EQ(options.Get<std::vector<int64_t>>("sizes", {}), (std::vector<int64_t>{3, 4}));
  EXPECT_THROW(options.Get<bool>("depth", false), StepError);
}

}  // namespace
}  // namespace weir
