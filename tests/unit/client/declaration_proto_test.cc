// SPDX-License-Identifier: Apache-2.0
#include "client/declaration_proto.h"

#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "tests/support/hand_made_view.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::HasSubstr;

Declaration EveryKind() {
  Declaration declaration;
  declaration.variables = {
      {"w", DType::kFloat32, {3, 4}, 1, Aggregation::kDefault},
      {"b", DType::kFloat64, {}, 2, Aggregation::kDefault},
      {"count", DType::kInt64, {1}, 0, Aggregation::kSum},
      {"mean", DType::kFloat32, {0}, 0, Aggregation::kMean},
      {"mask", DType::kBool, {7}, 0, Aggregation::kLastWrite},
      {"x", DType::kInt32, {2}, 0, Aggregation::kFirst},
  };
  Schedule step{0.5, 10, Schedule::Step{{100, 200}, 0.3}};
  Schedule cosine{0.25, 20, Schedule::Cosine{1000, 0.01}};
  Schedule linear{0.125, 30, Schedule::Linear{2000, 0.02}};
  declaration.groups = {{"sgd", step, Sgd{0.9, 0.1, 0.01, true}},
                        {"adagrad", cosine, Adagrad{0.1, 0.2, 0.3, 0.4}},
                        {"rmsprop", linear, RmsProp{0.9, 0.1, 0.2, 0.3, true}},
                        {"adam", {}, Adam{0.8, 0.9, 0.1, 0.2, true}},
                        {"adamw", {}, AdamW{0.7, 0.6, 0.5, 0.4, true}},
                        {"average", {}, Average{0.25}}};
  return declaration;
}

TEST(DeclarationProto, RoundTripKeepsEveryField) {
  const v1::Declaration proto = ToProto(EveryKind());
  WEIR_ASSERT_OK_AND_ASSIGN(const Declaration back, FromProto(proto));
  EXPECT_TRUE(MessageDifferencer::Equals(proto, ToProto(back)));
  ASSERT_EQ(back.variables.size(), 6u);
  EXPECT_EQ(back.variables[0].shape, (std::vector<uint64_t>{3, 4}));
  EXPECT_EQ(back.variables[4].aggregation, Aggregation::kLastWrite);
  EXPECT_EQ(std::get<RmsProp>(back.groups[2].optimizer).alpha, 0.9);
  EXPECT_EQ(std::get<AdamW>(back.groups[4].optimizer).weight_decay, 0.4);
  EXPECT_EQ(std::get<Average>(back.groups[5].optimizer).decay, 0.25);
  EXPECT_EQ(std::get<Schedule::Step>(back.groups[0].learning_rate.shape).factor, 0.3);
  EXPECT_EQ(std::get<Schedule::Linear>(back.groups[2].learning_rate.shape).final_rate, 0.02);
}

TEST(DeclarationProto, ScalarHasOneElementAndAZeroExtentNone) {
  const v1::Declaration proto = ToProto(EveryKind());
  EXPECT_EQ(ElementsOf(proto.variables(1)), 1u);
  EXPECT_EQ(ElementsOf(proto.variables(3)), 0u);
}

TEST(DeclarationProto, SizesBeyondThirtyTwoBitsAreRight) {
  Declaration declaration = SgdOver({uint64_t{3} << 31});
  WEIR_EXPECT_OK(CheckWellFormed(ToProto(declaration)));
  EXPECT_EQ(declaration.variables[0].elements(), 6442450944u);
  declaration.variables[0].shape = {uint64_t{1} << 31, uint64_t{1} << 31};
  EXPECT_THAT(CheckWellFormed(ToProto(declaration)),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("63 bits")));
  declaration.variables[0].shape = {uint64_t{1} << 63, 0, uint64_t{1} << 63};
  WEIR_EXPECT_OK(CheckWellFormed(ToProto(declaration)));
}

TEST(DeclarationProto, EachMistakeIsNamed) {
  const auto check = [](auto&& change, const char* message) {
    Declaration declaration = SgdOver({1, 2});
    change(declaration);
    EXPECT_THAT(CheckWellFormed(ToProto(declaration)),
                HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  check([](Declaration& d) { d.variables[1].name = "v0"; }, "'v0': is declared twice");
  check([](Declaration& d) { d.variables[1].name = ""; }, "no name");
  check([](Declaration& d) { d.variables[1].group = 2; }, "group 2 of 1 does not exist");
  check([](Declaration& d) { d.variables[1].dtype = DType::kInt32; },
        "a parameter must be f32 or f64, found DTYPE_I32");
  check([](Declaration& d) { d.variables[1].dtype = static_cast<DType>(99); }, "dtype 99");
  check(
      [](Declaration& d) {
        d.variables[1] = {"v1", DType::kInt32, {1}, 0, Aggregation::kMean};
      },
      "MEAN of integers");
  check([](Declaration& d) { d.groups[0].name = ""; }, "group has no name");
}

}  // namespace
}  // namespace weir
