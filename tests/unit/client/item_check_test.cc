// SPDX-License-Identifier: Apache-2.0
#include "client/item_check.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "rpc/errors.h"
#include "tests/support/hand_made_view.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ItemCheck : public ::testing::Test {
 protected:
  ItemCheck() {
    HandMadeView view;
    view.declaration = SgdOver({4, 2, 0});
    view.declaration.variables.push_back({"state", DType::kFloat32, {2}, 0, Aggregation::kDefault});
    view.servers = {ServerNamed("ps-0", 100)};
    routes_ = *Routes::Create(view.MakeShared());
  }

  std::shared_ptr<const Routes> routes_;
  std::vector<float> four_ = {1, 2, 3, 4};
  std::vector<float> two_ = {1, 2};
};

TEST_F(ItemCheck, WrongSizeNamesVariableAndBothSizes) {
  const PushItem item{0, four_.data(), 8};
  EXPECT_THAT(CheckPush(*routes_, WorkerId{1}, {item}, {}),
              HasStatus(absl::StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("'v0' has 16 bytes"), HasSubstr("8 were given"))));
}

TEST_F(ItemCheck, UnknownVariableIsRefused) {
  const PullItem item{9, four_.data(), 16};
  EXPECT_THAT(CheckPull(*routes_, {item}),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("variable 9 is unknown")));
}

TEST_F(ItemCheck, VariableThatComesTwiceIsRefused) {
  const std::vector<PushItem> items = {{1, two_.data(), 8}, {1, two_.data(), 8}};
  EXPECT_THAT(CheckPush(*routes_, WorkerId{1}, items, {}),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("'v1' comes twice")));
}

TEST_F(ItemCheck, VariableOfAnotherGroupIsRefused) {
  const PushItem item{3, two_.data(), 8};
  EXPECT_THAT(CheckPush(*routes_, WorkerId{1}, {item}, {}),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("'state' is of group 0")));
}

TEST_F(ItemCheck, NotFiniteGradientNamesWorkerStepVariableAndElement) {
  four_[2] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<PushItem> items = {{1, two_.data(), 8}, {0, four_.data(), 16}};
  PushOptions options;
  options.step = 12;
  const absl::Status status = CheckPush(*routes_, WorkerId{0xabc}, items, options);
  EXPECT_TRUE(IsNotFinite(status));
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("'v0'"), HasSubstr("element 2"),
                                                   HasSubstr("abc"), HasSubstr("step 12")));
}

TEST_F(ItemCheck, StateMayBeInfinite) {
  two_[0] = -std::numeric_limits<float>::infinity();
  PushOptions options;
  options.group = 0;
  WEIR_EXPECT_OK(CheckPush(*routes_, WorkerId{1}, {PushItem{3, two_.data(), 8}}, options));
}

TEST_F(ItemCheck, WeightMustBePositiveUnlessAllIsAbsent) {
  PushOptions options;
  options.weight = 0;
  WEIR_EXPECT_OK(CheckPush(*routes_, WorkerId{1}, {PushItem{0, nullptr, 0}}, options));
  EXPECT_THAT(CheckPush(*routes_, WorkerId{1}, {PushItem{0, four_.data(), 16}}, options),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("weight 0")));
  options.weight = -1;
  EXPECT_THAT(CheckPush(*routes_, WorkerId{1}, {}, options),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("weight -1")));
}

TEST_F(ItemCheck, VariableWithoutElementsNeedsNoMemory) {
  WEIR_EXPECT_OK(CheckPull(*routes_, {PullItem{2, nullptr, 0}}));
  WEIR_EXPECT_OK(CheckPush(*routes_, WorkerId{1}, {PushItem{2, nullptr, 0}}, {}));
}

TEST_F(ItemCheck, AssignNeedsEveryVariable) {
  const std::vector<PushItem> items = {{0, four_.data(), 16}, {1, two_.data(), 8}, {2, nullptr, 0}};
  EXPECT_THAT(CheckAssign(*routes_, items), HasStatus(absl::StatusCode::kInvalidArgument,
                                                      HasSubstr("no initial value for 'state'")));
}

}  // namespace
}  // namespace weir
