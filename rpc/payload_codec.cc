// SPDX-License-Identifier: Apache-2.0
#include "rpc/payload_codec.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpc/slice.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace weir {
namespace {

using google::protobuf::Message;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

constexpr uint32_t kPayloadTag =
    WireFormatLite::MakeTag(kPayloadField, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);

// Reads received slices in order. Used from one thread.
class SliceStream final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  explicit SliceStream(const std::vector<grpc::Slice>& slices) : slices_(slices) {}

  bool Next(const void** data, int* size) override {
    while (slice_ < slices_.size() && offset_ == slices_[slice_].size()) {
      ++slice_;
      offset_ = 0;
    }
    if (slice_ == slices_.size()) return false;
    *data = slices_[slice_].begin() + offset_;
    *size = static_cast<int>(slices_[slice_].size() - offset_);
    count_ += *size;
    offset_ = slices_[slice_].size();
    return true;
  }
  void BackUp(int count) override {
    offset_ -= count;
    count_ -= count;
  }
  bool Skip(int count) override {
    const void* data;
    int size;
    while (count > 0 && Next(&data, &size)) {
      if (size > count) BackUp(size - count);
      count -= std::min(size, count);
    }
    return count == 0;
  }
  int64_t ByteCount() const override { return count_; }

 private:
  const std::vector<grpc::Slice>& slices_;
  size_t slice_ = 0;
  size_t offset_ = 0;  // within slices_[slice_]
  int64_t count_ = 0;
};

// Where the payload's bytes are in the message.
struct PayloadRange {
  size_t first = 0;
  size_t size = 0;
};

std::string FieldName(const Message& message, int number) {
  const auto* field = message.GetDescriptor()->FindFieldByNumber(number);
  return field == nullptr ? absl::StrCat("field ", number)
                          : absl::StrCat("field '", field->name(), "' (", number, ")");
}

absl::Status Malformed(const Message& message, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("malformed ", message.GetDescriptor()->name(), ": ", what));
}

// Copies all fields but the payload to `header_bytes`, and finds the payload.
absl::StatusOr<PayloadRange> Split(CodedInputStream& input, size_t message_bytes,
                                   const Message& header, std::string& header_bytes) {
  google::protobuf::io::StringOutputStream sink(&header_bytes);
  CodedOutputStream output(&sink);
  PayloadRange payload;
  int previous_field = 0;
  while (const uint32_t tag = input.ReadTag()) {
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    if (field == 0) return Malformed(header, "a field has the number 0");
    previous_field = field;
    if (tag != kPayloadTag) {
      if (!WireFormatLite::SkipField(&input, tag, &output)) {
        return Malformed(header, FieldName(header, field) + " is cut off or no protobuf field");
      }
      continue;
    }
    uint32_t size = 0;
    if (!input.ReadVarint32(&size)) {
      return Malformed(header, FieldName(header, field) + " has no length");
    }
    payload = {static_cast<size_t>(input.CurrentPosition()), size};
    if (size > message_bytes - payload.first) {
      return Malformed(header, absl::StrCat(FieldName(header, field), " claims ", size, " bytes, ",
                                            message_bytes - payload.first, " are there"));
    }
    if (!input.Skip(static_cast<int>(size))) return Malformed(header, "the payload is cut off");
  }
  // ReadTag gives 0 at the end, and for a tag that is none.
  if (!input.ConsumedEntireMessage()) {
    return Malformed(header, previous_field == 0
                                 ? std::string("it starts with no protobuf tag")
                                 : "no protobuf tag follows " + FieldName(header, previous_field));
  }
  return payload;
}

// After `header_bytes` failed to parse as a whole: the first field that does not parse by itself.
std::string FirstBadField(const std::string& header_bytes, const Message& header) {
  CodedInputStream input(reinterpret_cast<const uint8_t*>(header_bytes.data()),
                         static_cast<int>(header_bytes.size()));
  const std::unique_ptr<Message> alone(header.New());
  while (const uint32_t tag = input.ReadTag()) {
    std::string bytes;
    {
      google::protobuf::io::StringOutputStream sink(&bytes);
      CodedOutputStream output(&sink);
      if (!WireFormatLite::SkipField(&input, tag, &output)) break;
    }
    if (!alone->ParseFromString(bytes)) {
      return FieldName(header, WireFormatLite::GetTagFieldNumber(tag));
    }
  }
  return "a field";
}

// References to the bytes of `range`. A short slice keeps its bytes inside the slice object itself,
// so each reference points into the copy that it owns.
Payload Cut(const std::vector<grpc::Slice>& slices, PayloadRange range) {
  Payload payload;
  size_t start = 0;  // of the slice in the message
  for (const grpc::Slice& slice : slices) {
    const size_t end = start + slice.size();
    const size_t first = std::max(start, range.first);
    const size_t last = std::min(end, range.first + range.size);
    if (first < last) {
      auto owner = std::make_unique<grpc::Slice>(slice);
      const uint8_t* data = owner->begin() + (first - start);
      payload.Append(data, last - first, owner.release(), [](void* object) {
        std::unique_ptr<grpc::Slice> release(static_cast<grpc::Slice*>(object));
      });
    }
    start = end;
  }
  return payload;
}

}  // namespace

absl::StatusOr<grpc::ByteBuffer> EncodeMessage(const Message& header, Payload payload) {
  const size_t header_bytes = header.ByteSizeLong();
  size_t prefix_bytes = header_bytes;
  if (payload.size() > 0) prefix_bytes += 1 + CodedOutputStream::VarintSize64(payload.size());
  if (prefix_bytes + payload.size() > kMaxMessageBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        header.GetDescriptor()->name(), " would have ", prefix_bytes + payload.size(),
        " bytes; at most ", kMaxMessageBytes, " go into a message, cut it into several"));
  }
  grpc_slice prefix = grpc_slice_malloc(prefix_bytes);
  uint8_t* end = header.SerializeWithCachedSizesToArray(GRPC_SLICE_START_PTR(prefix));
  if (payload.size() > 0) {
    end = CodedOutputStream::WriteTagToArray(kPayloadTag, end);
    CodedOutputStream::WriteVarint64ToArray(payload.size(), end);
  }
  std::vector<grpc::Slice> slices;
  slices.reserve(1 + payload.slices().size());
  slices.emplace_back(prefix, grpc::Slice::STEAL_REF);
  for (size_t i = 0; i < payload.slices().size(); ++i) {
    const Payload::Slice& slice = payload.slices()[i];
    if (slice.size == 0) continue;  // its owner goes with the payload
    const auto [owner, release] = payload.TakeOwner(i);
    void* data = const_cast<std::byte*>(slice.data);  // gRPC only reads it
    if (release == nullptr) {
      slices.emplace_back(data, slice.size, grpc::Slice::STATIC_SLICE);
    } else {
      slices.emplace_back(data, slice.size, release, owner);
    }
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::StatusOr<Payload> DecodeMessage(const grpc::ByteBuffer& buffer, Message& header) {
  const size_t message_bytes = buffer.Valid() ? buffer.Length() : 0;
  if (message_bytes > kMaxMessageBytes) {
    return Malformed(
        header, absl::StrCat("it has ", message_bytes, " bytes, more than ", kMaxMessageBytes));
  }
  std::vector<grpc::Slice> slices;
  if (message_bytes > 0 && !buffer.Dump(&slices).ok()) {
    return Malformed(header, "its bytes cannot be read");
  }
  std::string header_bytes;
  PayloadRange range;
  {
    SliceStream stream(slices);
    CodedInputStream input(&stream);
    WEIR_ASSIGN_OR_RETURN(range, Split(input, message_bytes, header, header_bytes));
  }
  if (!header.ParseFromString(header_bytes)) {
    return Malformed(header, FirstBadField(header_bytes, header) + " does not parse");
  }
  return Cut(slices, range);
}

}  // namespace weir
