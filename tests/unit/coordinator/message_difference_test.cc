// SPDX-License-Identifier: Apache-2.0
#include "coordinator/message_difference.h"

#include <gmock/gmock.h>

#include "weir/v1/job_spec.pb.h"

namespace weir {
namespace {

v1::JobSpec Spec() {
  v1::JobSpec spec;
  spec.set_name("job");
  spec.set_workers(4);
  spec.mutable_length()->set_epochs(20);
  (*spec.mutable_optimizers())["a"].mutable_sgd()->set_momentum(0.9);
  (*spec.mutable_optimizers())["b"].mutable_adam()->set_beta1(0.9);
  (*spec.mutable_model()->mutable_options())["depth"] = "20";
  return spec;
}

std::string KeyOf(const v1::JobSpec& other) {
  const auto difference = FirstDifference(Spec(), other);
  return difference ? difference->key : "";
}

TEST(FirstDifference, EqualMessagesHaveNone) {
  EXPECT_EQ(KeyOf(Spec()), "");
}

TEST(FirstDifference, NamesTheFirstFieldInTheOrderOfDeclaration) {
  v1::JobSpec other = Spec();
  other.set_seed(7);
  other.set_workers(5);
  const auto difference = FirstDifference(Spec(), other);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->key, "workers");
  EXPECT_EQ(difference->left, "4");
  EXPECT_EQ(difference->right, "5");
}

TEST(FirstDifference, NamesNestedFieldsByTheirPath) {
  v1::JobSpec other = Spec();
  (*other.mutable_optimizers())["b"].mutable_adam()->set_beta1(0.8);
  EXPECT_EQ(KeyOf(other), "optimizers[b].adam.beta1");
}

TEST(FirstDifference, TellsMapEntriesThatOnlyOneSideHas) {
  v1::JobSpec other = Spec();
  (*other.mutable_model()->mutable_options())["width"] = "16";
  EXPECT_EQ(KeyOf(other), "model.options[width]");
  other = Spec();
  other.mutable_model()->mutable_options()->clear();
  const auto difference = FirstDifference(Spec(), other);
  EXPECT_EQ(difference->key, "model.options[depth]");
  EXPECT_EQ(difference->right, "unset");
}

TEST(FirstDifference, OneofsOfAnotherCaseDiffer) {
  v1::JobSpec other = Spec();
  other.mutable_length()->set_steps(20);
  EXPECT_EQ(KeyOf(other), "length.epochs");
}

TEST(FirstDifference, RepeatedFieldsDifferInAnElementOrInTheirLength) {
  v1::Schedule::Step left;
  left.add_boundary_examples(1);
  left.add_boundary_examples(2);
  v1::Schedule::Step right = left;
  right.set_boundary_examples(1, 3);
  EXPECT_EQ(FirstDifference(left, right)->key, "boundary_examples[1]");
  right = left;
  right.add_boundary_examples(3);
  EXPECT_EQ(FirstDifference(left, right)->key, "boundary_examples");
  EXPECT_EQ(FirstDifference(left, right)->right, "3 entries");
}

}  // namespace
}  // namespace weir
