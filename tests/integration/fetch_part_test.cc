// SPDX-License-Identifier: Apache-2.0
// Parts of checkpoints over gRPC, between a server's skin and RemotePartTransport.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/part_writer.h"
#include "rpc/channels.h"
#include "server/checkpoint_parts.h"
#include "server/remote_part_transport.h"
#include "server/server_control_service.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/checkpoint/sample_part.h"
#include "weir/v1/server_control.grpc.pb.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr size_t kLargeChunks = 128;

class FetchPartTest : public ::testing::Test {
 protected:
  void SetUp() override {
    CheckpointParts::Options options;
    options.files = &FileSystem::Real();
    options.clock = &Clock::Real();
    options.peers = &transport_;
    options.root = root_;
    options.server = "server-0";
    WEIR_ASSERT_OK_AND_ASSIGN(parts_, CheckpointParts::Open(options));
    WEIR_ASSERT_OK_AND_ASSIGN(terms_, TermRecord::Open(FileSystem::Real(), temp_.path()));
    control_ = std::make_unique<ServerControlService>(
        ServerControlService::Options{.server = nullptr,
                                      .terms = terms_.get(),
                                      .executor = executor_.get(),
                                      .parts = parts_.get(),
                                      .fetch_patience = absl::Milliseconds(300)});
    WEIR_ASSERT_OK_AND_ASSIGN(serving_, Serve({.services = {control_.get()}}));
    WEIR_ASSERT_OK_AND_ASSIGN(
        part_, SamplePart().Write(
                   {.files = &FileSystem::Real(), .root = root_, .directory = "job/00000001-1"}));
  }
  void TearDown() override {
    if (serving_.server != nullptr) serving_.server->Shutdown();
  }

  v1::FetchPartRequest RequestFor(uint64_t shard) {
    v1::FetchPartRequest request;
    request.set_term(1);
    request.set_directory(part_.directory());
    request.set_shard(shard);
    request.set_id("00000001-1");
    *request.mutable_files() = part_.files();
    return request;
  }

  // Shard 1, of 16 MiB.
  absl::StatusOr<v1::CheckpointPart> WriteLargePart() {
    const std::vector<float> weights((16 << 20) / sizeof(float) / kLargeChunks);
    const auto writer = PartWriter::Create(
        {.files = &FileSystem::Real(), .root = root_, .directory = "job/00000002-1"});
    if (!writer.ok()) return writer.status();
    for (uint64_t chunk = 0; chunk < kLargeChunks; ++chunk) {
      const ChunkRecord record{
          .shard = ShardId{1},
          .chunk = chunk,
          .dtype = v1::DTYPE_F32,
          .initialised = true,
          .elements = weights.size(),
          .weights = absl::MakeConstSpan(reinterpret_cast<const std::byte*>(weights.data()),
                                         weights.size() * sizeof(float))};
      const absl::Status added = (*writer)->Add(record);
      if (!added.ok()) return added;
    }
    return (*writer)->Finish();
  }

  // Versions of the chunks that came.
  absl::StatusOr<std::vector<uint64_t>> Fetch(const v1::FetchPartRequest& request) {
    std::vector<uint64_t> versions;
    const absl::Status status = transport_.Fetch(
        serving_.address, request, Clock::Real().Now() + absl::Seconds(30),
        [&](uint64_t chunk, absl::string_view bytes) -> absl::Status {
          const absl::StatusOr<ChunkRecord> record = DecodeChunkRecord(bytes, "record");
          if (!record.ok()) return record.status();
          EXPECT_EQ(record->chunk, chunk);
          versions.push_back(record->version);
          return absl::OkStatus();
        });
    if (!status.ok()) return status;
    return versions;
  }

  TempFolder temp_;
  const std::string root_ = temp_ / "checkpoints/server-0";
  RemotePartTransport transport_{Clock::Real()};
  const std::unique_ptr<Executor> executor_ = Executor::CreatePool(2);
  std::unique_ptr<CheckpointParts> parts_;
  std::unique_ptr<TermRecord> terms_;
  std::unique_ptr<ServerControlService> control_;
  Serving serving_;
  v1::CheckpointPart part_;
};

TEST_F(FetchPartTest, AllRecordsOfAShardComeInOrder) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto first, Fetch(RequestFor(4)));
  EXPECT_THAT(first, ElementsAre(5, 6));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto second, Fetch(RequestFor(9)));
  EXPECT_THAT(second, ElementsAre(0));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto none, Fetch(RequestFor(8)));
  EXPECT_THAT(none, ElementsAre());
}

TEST_F(FetchPartTest, AReaderMayEndEarly) {
  const absl::Status status =
      transport_.Fetch(serving_.address, RequestFor(4), absl::InfiniteFuture(),
                       [](uint64_t, absl::string_view) { return absl::DataLossError("enough"); });
  EXPECT_THAT(status, HasStatus(absl::StatusCode::kDataLoss, HasSubstr("enough")));
  WEIR_EXPECT_OK(Fetch(RequestFor(4)).status());
}

// As many calls as threads serve them, each of more than the network takes in advance; neither has
// a deadline, and neither reads on.
TEST_F(FetchPartTest, ReadersThatStandStillAreCutOffAndHoldNobodyUp) {
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::CheckpointPart large, WriteLargePart());
  v1::FetchPartRequest request = RequestFor(1);
  request.set_directory(large.directory());
  *request.mutable_files() = large.files();
  request.set_id("00000002-1");
  WEIR_ASSERT_OK_AND_ASSIGN(const auto channel, Dial(serving_.address));
  const auto stub = v1::ServerControl::NewStub(channel);
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::FetchPartReply>> reader;
  };
  std::vector<Call> still(2);
  v1::FetchPartReply reply;
  for (Call& call : still) {
    call.reader = stub->FetchPart(&call.context, request);
    ASSERT_TRUE(call.reader->Read(&reply));  // now a thread is its own
  }
  WEIR_ASSERT_OK_AND_ASSIGN(const auto versions, Fetch(RequestFor(4)));
  EXPECT_THAT(versions, ElementsAre(5, 6));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto whole, Fetch(request));
  EXPECT_THAT(whole, SizeIs(kLargeChunks));
  for (Call& call : still) {
    size_t taken = 1;
    while (call.reader->Read(&reply)) ++taken;
    EXPECT_LT(taken, kLargeChunks);
    EXPECT_EQ(call.reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
}

TEST_F(FetchPartTest, DamageIsNamedAcrossTheNetwork) {
  const std::string path = part_.directory() + "/" + part_.files(0).name();
  WEIR_ASSERT_OK(FileSystem::Real().WriteFile(path, "damaged"));
  EXPECT_THAT(Fetch(RequestFor(4)), HasStatus(absl::StatusCode::kDataLoss, HasSubstr(path)));
}

TEST_F(FetchPartTest, OnlyPartsOfThisServerAreServed) {
  v1::FetchPartRequest request = RequestFor(4);
  request.set_directory(temp_.path());
  EXPECT_THAT(Fetch(request), HasStatus(absl::StatusCode::kPermissionDenied, HasSubstr("not in")));
  request.set_directory(root_ + "/job/00000002-1");
  EXPECT_THAT(Fetch(request), HasStatus(absl::StatusCode::kNotFound, HasSubstr("00000002-1")));
}

TEST_F(FetchPartTest, AnOldCoordinatorIsNotServed) {
  WEIR_ASSERT_OK(terms_->Admit(2));
  EXPECT_THAT(Fetch(RequestFor(4)), HasStatus(absl::StatusCode::kAborted, HasSubstr("term")));
}

TEST_F(FetchPartTest, AServerThatIsAwayIsUnavailable) {
  serving_.server->Shutdown();
  EXPECT_EQ(Fetch(RequestFor(4)).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace weir
