// SPDX-License-Identifier: Apache-2.0
#include "rpc/payload_codec.h"

#include <gmock/gmock.h>

#include <random>
#include <string>
#include <vector>

#include "tests/support/payload_bytes.h"
#include "tests/support/status_matchers.h"
#include "weir/v1/parameter_server.pb.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// A message as it arrives: cut into slices of `slice_bytes`.
grpc::ByteBuffer Received(const std::string& bytes, size_t slice_bytes = 1 << 20) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += slice_bytes) {
    slices.emplace_back(bytes.substr(at, slice_bytes));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

v1::PushRequest SomePush() {
  v1::PushRequest push;
  push.mutable_context()->set_run_id(0xFEDCBA9876543210);
  push.mutable_context()->set_worker(7);
  push.set_group(1);
  push.set_sequence(uint64_t{1} << 40);
  push.set_weight(0.5);
  for (int i = 0; i < 3; ++i) {
    v1::Segment* segment = push.add_segments();
    segment->set_shard((uint64_t{1} << 33) + i);
    segment->set_count(25);
    segment->set_absent(i == 1);
  }
  return push;
}

std::string Message(const v1::PushRequest& header, const std::string& payload) {
  v1::PushRequest whole = header;
  whole.set_payload(payload);
  return whole.SerializeAsString();
}

Payload Borrowed(const std::string& bytes, size_t slice_bytes = 1 << 20) {
  Payload payload;
  for (size_t at = 0; at < bytes.size(); at += slice_bytes) {
    payload.Append(bytes.data() + at, std::min(slice_bytes, bytes.size() - at));
  }
  return payload;
}

TEST(PayloadCodec, WritesWhatTheGeneratedEncoderWrites) {
  const std::string payload(1000, 'x');
  WEIR_ASSERT_OK_AND_ASSIGN(const grpc::ByteBuffer buffer,
                            EncodeMessage(SomePush(), Borrowed(payload, 300)));
  EXPECT_EQ(BytesOf(buffer), Message(SomePush(), payload));
}

TEST(PayloadCodec, EmptyPayloadIsLeftOut) {
  WEIR_ASSERT_OK_AND_ASSIGN(const grpc::ByteBuffer buffer, EncodeMessage(SomePush(), Payload()));
  EXPECT_EQ(BytesOf(buffer), SomePush().SerializeAsString());
  v1::PushRequest header;
  WEIR_ASSERT_OK_AND_ASSIGN(const Payload payload, DecodeMessage(buffer, header));
  EXPECT_EQ(payload.size(), 0u);
}

TEST(PayloadCodec, EmptyMessageIsTheDefaultMessage) {
  v1::PushRequest header = SomePush();
  WEIR_ASSERT_OK_AND_ASSIGN(const Payload payload, DecodeMessage(grpc::ByteBuffer(), header));
  EXPECT_EQ(payload.size(), 0u);
  EXPECT_EQ(header.SerializeAsString(), "");
}

TEST(PayloadCodec, ReadsTheGeneratedEncodersMessageWhereverItsSlicesEnd) {
  const std::string payload = "0123456789abcdefghijklmnopqrstuvwxyz";
  const std::string bytes = Message(SomePush(), payload);
  for (size_t slice_bytes = 1; slice_bytes <= bytes.size(); ++slice_bytes) {
    v1::PushRequest header;
    WEIR_ASSERT_OK_AND_ASSIGN(const Payload got,
                              DecodeMessage(Received(bytes, slice_bytes), header));
    EXPECT_EQ(BytesOf(got), payload);
    EXPECT_EQ(header.SerializeAsString(), SomePush().SerializeAsString());
  }
}

TEST(PayloadCodec, PayloadPointsIntoTheReceivedSlices) {
  const std::string bytes = Message(SomePush(), std::string(100'000, 'x'));
  const grpc::ByteBuffer buffer = Received(bytes);
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(buffer.Dump(&slices).ok());
  v1::PushRequest header;
  WEIR_ASSERT_OK_AND_ASSIGN(const Payload payload, DecodeMessage(buffer, header));
  ASSERT_EQ(payload.slices().size(), 1u);
  const auto* data = reinterpret_cast<const uint8_t*>(payload.slices()[0].data);
  EXPECT_TRUE(data >= slices[0].begin() && data < slices[0].end());
}

TEST(PayloadCodec, PayloadOutlivesTheBuffer) {
  Payload payload;
  {
    grpc::ByteBuffer buffer = Received(Message(SomePush(), "short and long enough"), 5);
    v1::PushRequest header;
    WEIR_ASSERT_OK_AND_ASSIGN(payload, DecodeMessage(buffer, header));
    buffer.Clear();
  }
  EXPECT_EQ(BytesOf(payload), "short and long enough");
}

TEST(PayloadCodec, FieldsMayFollowThePayloadAndTheLastPayloadWins) {
  v1::PushRequest first;
  first.set_group(3);
  first.set_payload("forgotten");
  v1::PushRequest second;
  second.set_sequence(9);
  second.set_payload("the last one");
  v1::PushRequest third;
  third.set_examples(64);
  const std::string bytes =
      first.SerializeAsString() + second.SerializeAsString() + third.SerializeAsString();
  for (size_t slice_bytes : {1, 3, 1000}) {
    v1::PushRequest header;
    WEIR_ASSERT_OK_AND_ASSIGN(const Payload payload,
                              DecodeMessage(Received(bytes, slice_bytes), header));
    EXPECT_EQ(BytesOf(payload), "the last one");
    EXPECT_EQ(header.group(), 3u);
    EXPECT_EQ(header.sequence(), 9u);
    EXPECT_EQ(header.examples(), 64u);
    EXPECT_EQ(header.payload(), "");
  }
}

TEST(PayloadCodec, UnknownFieldsAndGroupsAreIgnored) {
  // 100: varint 1; 101: group with a varint inside; 15 as a varint, which is not the payload.
  const std::string unknown(
      "\xA0\x06\x01"
      "\xAB\x06\x08\x02\xAC\x06"
      "\x78\x05",
      11);
  v1::PushRequest header;
  WEIR_ASSERT_OK_AND_ASSIGN(const Payload payload,
                            DecodeMessage(Received(unknown + Message(SomePush(), "data")), header));
  EXPECT_EQ(BytesOf(payload), "data");
  EXPECT_EQ(header.sequence(), SomePush().sequence());
}

TEST(PayloadCodec, OwnersAreReleasedOnceWhenTheBytesAreDone) {
  int released = 0;
  const std::string bytes(100, 'x');
  Payload payload;
  for (size_t size : {50, 0, 50}) {  // a slice without bytes has an owner too
    payload.Append(bytes.data(), size, &released, [](void* count) { ++*static_cast<int*>(count); });
  }
  {
    WEIR_ASSERT_OK_AND_ASSIGN(const grpc::ByteBuffer buffer,
                              EncodeMessage(SomePush(), std::move(payload)));
    EXPECT_EQ(buffer.Length(), SomePush().ByteSizeLong() + 2 + 100);
    const grpc::ByteBuffer copy = buffer;
    EXPECT_LE(released, 1);
  }
  EXPECT_EQ(released, 3);
}

TEST(PayloadCodec, MessageOverTheLimitIsRefusedAndItsOwnersReleased) {
  const std::string bytes(kMaxMessageBytes, 'x');
  int released = 0;
  Payload payload;
  payload.Append(bytes.data(), bytes.size(), &released,
                 [](void* count) { ++*static_cast<int*>(count); });
  EXPECT_THAT(EncodeMessage(SomePush(), std::move(payload)),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("at most 4194304")));
  EXPECT_EQ(released, 1);
  v1::PushRequest header;
  EXPECT_THAT(DecodeMessage(Received(Message({}, bytes)), header),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("more than 4194304")));
}

TEST(PayloadCodec, LargestMessageGoesBothWays) {
  // Tag and a length of four bytes leave so much.
  const std::string bytes(kMaxMessageBytes - 5, 'x');
  WEIR_ASSERT_OK_AND_ASSIGN(const grpc::ByteBuffer buffer,
                            EncodeMessage(v1::PushRequest(), Borrowed(bytes)));
  EXPECT_EQ(buffer.Length(), kMaxMessageBytes);
  v1::PushRequest header;
  WEIR_ASSERT_OK_AND_ASSIGN(const Payload payload, DecodeMessage(buffer, header));
  EXPECT_EQ(payload.size(), bytes.size());
}

TEST(PayloadCodec, ErrorsNameTheMessageAndTheField) {
  v1::PushRequest header;
  EXPECT_THAT(DecodeMessage(Received(std::string("\x7A\x64"
                                                 "abc")),
                            header),
              HasStatus(absl::StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("PushRequest"), HasSubstr("'payload' (15)"),
                              HasSubstr("claims 100 bytes, 3 are there"))));
  EXPECT_THAT(
      DecodeMessage(Received(std::string("\x62\x64"
                                         "abc")),
                    header),
      HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("'segments' (12) is cut off")));
  // A segment that ends inside its first varint.
  EXPECT_THAT(
      DecodeMessage(Received(std::string("\x10\x01\x62\x02\x08\x80")), header),
      HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("'segments' (12) does not parse")));
  EXPECT_THAT(
      DecodeMessage(Received(std::string("\x10\x01\x00", 3)), header),
      HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("follows field 'group' (2)")));
  EXPECT_THAT(DecodeMessage(Received(std::string("\x7A")), header),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("has no length")));
}

TEST(PayloadCodec, EveryTruncationIsRefusedOrIsAMessageOfItsOwn) {
  const std::string bytes = Message(SomePush(), "0123456789");
  for (size_t size = 0; size < bytes.size(); ++size) {
    v1::PushRequest expected;
    const bool legal = expected.ParseFromString(bytes.substr(0, size));
    v1::PushRequest header;
    EXPECT_EQ(DecodeMessage(Received(bytes.substr(0, size), 7), header).ok(), legal) << size;
  }
}

// What the generated decoder accepts ours accepts, with the same result; the rest is
// InvalidArgument.
void ExpectAsGenerated(const std::string& bytes, size_t slice_bytes) {
  v1::PushRequest expected;
  const bool legal = expected.ParseFromString(bytes);
  v1::PushRequest header;
  const absl::StatusOr<Payload> payload = DecodeMessage(Received(bytes, slice_bytes), header);
  if (!payload.ok()) {
    EXPECT_EQ(payload.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_FALSE(legal) << payload.status();
    return;
  }
  if (!legal) return;  // an over-long varint, say: what was read is still well-formed
  EXPECT_EQ(BytesOf(*payload), expected.payload());
  expected.clear_payload();
  expected.DiscardUnknownFields();
  header.DiscardUnknownFields();
  EXPECT_EQ(header.SerializeAsString(), expected.SerializeAsString());
}

TEST(PayloadCodec, TenThousandRandomAndDamagedMessagesAreDecodedAsTheGeneratedDecoderDoes) {
  std::mt19937_64 random(20240229);
  const std::string whole = Message(SomePush(), "0123456789abcdef");
  for (int i = 0; i < 10'000; ++i) {
    std::string bytes;
    if (i % 2 == 0) {
      bytes.resize(random() % 200);
      for (char& byte : bytes) byte = static_cast<char>(random());
    } else {
      bytes = whole.substr(0, random() % 4 == 0 ? random() % whole.size() : whole.size());
      for (size_t damages = random() % 4; damages > 0 && !bytes.empty(); --damages) {
        bytes[random() % bytes.size()] = static_cast<char>(random());
      }
    }
    ExpectAsGenerated(bytes, 1 + random() % 40);
  }
}

}  // namespace
}  // namespace weir
