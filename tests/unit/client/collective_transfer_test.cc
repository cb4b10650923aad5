// SPDX-License-Identifier: Apache-2.0
// The client's side of collectives, over scripted servers that answer with what they were sent.
#include "client/collective_transfer.h"

#include <gmock/gmock.h>

#include <cstring>
#include <list>
#include <vector>

#include "rpc/errors.h"
#include "tests/unit/client/engine_fixture.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class CollectiveTransferTest : public EngineFixture {
 protected:
  // Piece p goes to server (7 + p) mod 3.
  void StartOverThree(uint64_t credit_bytes = 8 << 20, uint64_t payload_bytes = 128 << 10) {
    for (int i = 0; i < 3; ++i) {
      AddServer("ps-" + std::to_string(i), 100 + static_cast<uint64_t>(i), credit_bytes,
                payload_bytes);
    }
    view_.declaration = SgdOver({4});
    view_.regime = v1::REGIME_SYNC;
    Start();
  }

  static ReduceOptions Sum(uint64_t elements, uint64_t step = 0, uint32_t ordinal = 0) {
    ReduceOptions options;
    options.name = "loss";
    options.shape = {elements};
    options.step = step;
    options.ordinal = ordinal;
    options.timeout = absl::Seconds(10);
    return options;
  }

  std::shared_ptr<Result> Reduce(const std::vector<float>& values, const ReduceOptions& options) {
    auto result = std::make_shared<Result>();
    const std::vector<float>& sent = sent_.emplace_back(values);
    engine_->StartReduce(
        {reinterpret_cast<const std::byte*>(sent.data()), sent.size() * sizeof(float)}, options,
        bytes_, [result](absl::StatusOr<TransferResult> r) { *result = std::move(r); });
    return result;
  }
  std::vector<float> Got() const {
    std::vector<float> values(bytes_.size() / sizeof(float));
    std::memcpy(values.data(), bytes_.data(), bytes_.size());
    return values;
  }
  std::vector<v1::ReduceRequest> Seen(int index) {
    std::vector<v1::ReduceRequest> requests;
    for (const auto& seen : server("ps-" + std::to_string(index)).seen()) {
      requests.push_back(seen.reduce);
    }
    return requests;
  }

  std::list<std::vector<float>> sent_;  // in use until the calls end
  std::vector<std::byte> bytes_;
};

// Piece 0 has 65,536 elements, the others the 32,768 that its answer says: five of them.
TEST_F(CollectiveTransferTest, PieceZeroGoesAloneAndTheOthersFollowOverAllServers) {
  StartOverThree();
  std::vector<float> values(200'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  server("ps-1").Park();
  const auto reduced = Reduce(values, Sum(values.size()));
  ASSERT_THAT(Seen(1), SizeIs(1));
  EXPECT_THAT(Seen(0), IsEmpty());
  EXPECT_THAT(Seen(2), IsEmpty());
  server("ps-1").Release();
  WEIR_ASSERT_OK(**reduced);
  EXPECT_EQ(Got(), values);
  EXPECT_THAT(Seen(0), SizeIs(2));
  EXPECT_THAT(Seen(1), SizeIs(2));
  EXPECT_THAT(Seen(2), SizeIs(2));
  EXPECT_EQ(Seen(1)[0].count(), 65'536u);
  EXPECT_EQ(Seen(2)[0].piece(), 1u);
  EXPECT_EQ(Seen(2)[0].first_element(), 65'536u);
  EXPECT_EQ(Seen(2)[0].count(), 32'768u);
  EXPECT_EQ(Seen(2)[0].step_generation(), 1u);
}

TEST_F(CollectiveTransferTest, PiecesInFlightStayBelowTheCredit) {
  StartOverThree(/*credit_bytes=*/256 << 10);
  const std::vector<float> values(2'000'000, 1);
  const auto reduced = Reduce(values, Sum(values.size()));
  WEIR_ASSERT_OK(**reduced);
  EXPECT_EQ(Got(), values);
  server("ps-0").Park();
  const auto parked = Reduce(values, Sum(values.size(), 0, 1));
  EXPECT_FALSE(parked->has_value());
  EXPECT_LE(server("ps-0").most_in_flight_bytes(), 256u << 10);
  server("ps-0").Release();
  WEIR_ASSERT_OK(**parked);
}

TEST_F(CollectiveTransferTest, ServersLearnWhichPiecesAreDone) {
  StartOverThree(8 << 20, /*payload_bytes=*/64 << 10);
  const std::vector<float> values(200'000, 1);
  WEIR_ASSERT_OK(**Reduce(values, Sum(values.size())));
  EXPECT_EQ(Seen(1)[0].pieces_done(), 0u);
  EXPECT_GT(Seen(1).back().pieces_done(), 1u);
  EXPECT_LE(Seen(1).back().pieces_done(), Seen(1).back().piece());
}

TEST_F(CollectiveTransferTest, CallsAreCountedAndARepetitionIsTheSameCall) {
  StartOverThree();
  server("ps-1").LoseNextAnswer(absl::UnavailableError("connection reset"));
  const auto first = Reduce({1}, Sum(1));
  executor_.Advance(absl::Seconds(1));
  WEIR_ASSERT_OK(**first);
  WEIR_ASSERT_OK(**Reduce({2}, Sum(1, 0, 1)));
  ASSERT_THAT(Seen(1), SizeIs(3));
  EXPECT_EQ(Seen(1)[0].sequence(), 1u);
  EXPECT_EQ(Seen(1)[1].sequence(), 1u);
  EXPECT_EQ(Seen(1)[2].sequence(), 2u);
  EXPECT_EQ(Seen(1)[2].step_generation(), 1u);
}

TEST_F(CollectiveTransferTest, AStaleViewIsAwaitedAndTheStepKeepsItsGeneration) {
  StartOverThree();
  WEIR_ASSERT_OK(**Reduce({1}, Sum(1)));
  server("ps-1").FailNext(StaleView("generation", 1, 2));
  const auto second = Reduce({2}, Sum(1, 0, 1));
  EXPECT_FALSE(second->has_value());
  ++view_.generation;
  NextView();
  WEIR_ASSERT_OK(**second);
  EXPECT_EQ(Seen(1).back().context().generation(), 2u);
  EXPECT_EQ(Seen(1).back().step_generation(), 1u);
}

TEST_F(CollectiveTransferTest, AMemberThatLeftEndsTheCallAndNotTheAttempt) {
  StartOverThree();
  server("ps-1").FailNext(MemberLeft("rank 1 has left within step 0"));
  const auto reduced = Reduce({1}, Sum(1));
  ASSERT_TRUE(reduced->has_value());
  EXPECT_TRUE(MayRepeatStep((**reduced).status()));
  EXPECT_FALSE(engine_->IsOver(1));
  WEIR_EXPECT_OK(**Reduce({1}, Sum(1)));
}

TEST_F(CollectiveTransferTest, OneIsCalledAtATime) {
  StartOverThree();
  server("ps-1").Park();
  const auto first = Reduce({1}, Sum(1));
  std::vector<std::byte> other;
  Result second;
  const float value = 1;
  engine_->StartReduce({reinterpret_cast<const std::byte*>(&value), 4}, Sum(1, 0, 1), other,
                       [&](absl::StatusOr<TransferResult> r) { second = std::move(r); });
  EXPECT_THAT(*second,
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("one at a time")));
  server("ps-1").Release();
  WEIR_EXPECT_OK(**first);
}

TEST_F(CollectiveTransferTest, TheDeadlineSaysWhatTheServerSaidLast) {
  StartOverThree();
  for (int i = 0; i < 100; ++i) {
    server("ps-1").FailNext(absl::DeadlineExceededError("waits for rank 3"));
  }
  const auto reduced = Reduce({1}, Sum(1, 17));
  executor_.Advance(absl::Seconds(11));
  ASSERT_TRUE(reduced->has_value());
  EXPECT_THAT(**reduced,
              HasStatus(absl::StatusCode::kDeadlineExceeded,
                        AllOf(HasSubstr("collective 0 of step 17, AllReduce(SUM) \"loss\" f32[1]"),
                              HasSubstr("within 10s"), HasSubstr("waits for rank 3"))));
}

// What listens to a broadcast gets nothing back here, where four bytes are due.
TEST_F(CollectiveTransferTest, AnAnswerThatDoesNotFitIsAnError) {
  StartOverThree();
  ReduceOptions broadcast = Sum(1);
  broadcast.op = ReduceOp::kBroadcast;
  broadcast.source = 1;
  EXPECT_THAT(**Reduce({}, broadcast),
              HasStatus(absl::StatusCode::kInternal, HasSubstr("0 bytes of 1 members")));
}

TEST_F(CollectiveTransferTest, ARollbackEndsItAndBeginsNoStepHalfway) {
  StartOverThree();
  WEIR_ASSERT_OK(**Reduce({1}, Sum(1)));
  server("ps-1").Park();
  const auto second = Reduce({1}, Sum(1, 0, 1));
  ++view_.attempt;
  NextView();
  server("ps-1").Release();
  EXPECT_TRUE(IsStaleAttempt((**second).status()));
  engine_->Adopt(2);
  EXPECT_THAT(**Reduce({1}, Sum(1, 0, 1)),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("before collective 0")));
}

}  // namespace
}  // namespace weir
