// SPDX-License-Identifier: Apache-2.0
#include "client/routes.h"

#include <gtest/gtest.h>

#include "tests/support/hand_made_view.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

v1::JobView ViewOnTwoServers() {
  HandMadeView view;
  view.declaration = SgdOver({1000, 1000});
  view.workers = {5};
  view.servers = {ServerNamed("ps-0", 100), ServerNamed("ps-1", 101)};
  return view.Make();
}

absl::Status CreateStatus(v1::JobView view) {
  return Routes::Create(std::make_shared<const v1::JobView>(std::move(view))).status();
}

TEST(Routes, EveryShardHasTheServerThatTheViewGives) {
  const auto routes = Routes::Create(std::make_shared<const v1::JobView>(ViewOnTwoServers()));
  WEIR_ASSERT_OK(routes);
  EXPECT_TRUE((*routes)->placed());
  EXPECT_EQ((*routes)->server_of(0).name(), "ps-0");
  EXPECT_EQ((*routes)->server_of(1).name(), "ps-1");
  EXPECT_TRUE((*routes)->IsMember(WorkerId{5}));
  EXPECT_FALSE((*routes)->IsMember(WorkerId{6}));
}

TEST(Routes, ViewWithoutServersHasNoVariables) {
  v1::JobView view = ViewOnTwoServers();
  view.clear_shard_map();
  const auto routes = Routes::Create(std::make_shared<const v1::JobView>(view));
  WEIR_ASSERT_OK(routes);
  EXPECT_FALSE((*routes)->placed());
  EXPECT_EQ((*routes)->num_variables(), 0u);
}

TEST(Routes, ContradictionsAreErrorsAndNotCrashes) {
  v1::JobView view = ViewOnTwoServers();
  view.mutable_shard_map()->add_server_of_shard(0);
  EXPECT_THAT(CreateStatus(view),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("places 3 shards")));
  view = ViewOnTwoServers();
  view.mutable_shard_map()->set_server_of_shard(0, 2);
  EXPECT_THAT(CreateStatus(view),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("not listed")));
  view = ViewOnTwoServers();
  view.mutable_shard_map()->set_chunk_bytes(3);
  EXPECT_FALSE(CreateStatus(view).ok());
  view = ViewOnTwoServers();
  view.mutable_declaration()->mutable_variables(0)->set_dtype(v1::DTYPE_UNSPECIFIED);
  EXPECT_FALSE(CreateStatus(view).ok());
}

}  // namespace
}  // namespace weir
