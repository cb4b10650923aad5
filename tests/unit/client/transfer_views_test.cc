// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "rpc/errors.h"
#include "tests/unit/client/engine_fixture.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

using Values = std::vector<std::vector<float>>;

// A reader of variables of one shard each, of which a server takes one at a time.
class TransferViews : public EngineFixture {
 protected:
  static constexpr uint64_t kElements = 64;
  static constexpr uint64_t kBytes = kElements * sizeof(float);

  void StartReader(size_t variables, const std::vector<std::string>& servers) {
    for (size_t i = 0; i < servers.size(); ++i) AddServer(servers[i], 100 + i, kBytes, kBytes);
    view_.declaration = SgdOver(std::vector<uint64_t>(variables, kElements));
    Start(/*worker=*/0);
  }
  // The shards are placed in turn on these.
  void Place(const std::vector<v1::ServerInfo>& servers) {
    view_.servers = servers;
    ++view_.attempt;
    ++view_.shard_map_version;
    NextView();
  }
  std::vector<uint64_t> ShardsAskedOf(const std::string& name) {
    std::vector<uint64_t> shards;
    for (const ScriptedServer::Seen& seen : server(name).seen()) {
      for (const v1::Segment& segment : seen.pull.segments()) shards.push_back(segment.shard());
    }
    return shards;
  }
};

TEST_F(TransferViews, WhatIsQueuedForAServerFollowsItsShardsToAnother) {
  StartReader(8, {"a", "b", "c"});
  server("a").Park();  // has shard 0, and is to get 3 and 6
  Values weights;
  const auto pulled = Pull(weights);
  ASSERT_THAT(ShardsAskedOf("a"), ElementsAre(0));
  EXPECT_THAT(ShardsAskedOf("c"), ElementsAre(2, 5));
  Place({view_.servers[0], view_.servers[2]});  // of a are 0, 2, 4 and 6 now, of c the others
  server("a").Release();
  ASSERT_TRUE(pulled->has_value());
  WEIR_ASSERT_OK(**pulled);
  EXPECT_THAT(ShardsAskedOf("a"), ElementsAre(0, 6));
  EXPECT_THAT(ShardsAskedOf("c"), ElementsAre(2, 5, 3));
}

// Shard 1 is of b, which knows of a newer view, then of c, which is not there yet, then of a.
TEST_F(TransferViews, SoDoesWhatIsSentAgain) {
  StartReader(2, {"a", "b"});
  server("b").FailNext(StaleView("generation", 1, 2));
  Values weights;
  const auto pulled = Pull(weights);
  const v1::ServerInfo a = view_.servers[0];
  const v1::ServerInfo c = ServerNamed("c", 102);
  servers_["c"] = std::make_shared<ScriptedServer>(/*incarnation=*/999);
  Place({a, c});
  EXPECT_EQ(server("c").greetings(), 1);
  EXPECT_THAT(ShardsAskedOf("c"), SizeIs(0));
  EXPECT_FALSE(pulled->has_value());
  Place({c, a});
  ASSERT_TRUE(pulled->has_value());
  WEIR_ASSERT_OK(**pulled);
  EXPECT_THAT(ShardsAskedOf("a"), ElementsAre(0, 1));
}

TEST_F(TransferViews, AServerThatIsListedNoMoreIsLetGoAndGreetedAnewWhenItIsBack) {
  StartReader(2, {"a", "b"});
  Values weights;
  WEIR_ASSERT_OK(**Pull(weights));
  const std::vector<v1::ServerInfo> both = view_.servers;
  ASSERT_GT(servers_.at("b").use_count(), 1);
  Place({both[0]});
  EXPECT_EQ(servers_.at("b").use_count(), 1) << "the test's own";
  EXPECT_GT(servers_.at("a").use_count(), 1);
  WEIR_ASSERT_OK(**Pull(weights));
  Place(both);
  WEIR_ASSERT_OK(**Pull(weights));
  EXPECT_EQ(server("a").greetings(), 1);
  EXPECT_EQ(server("b").greetings(), 2);
}

}  // namespace
}  // namespace weir
