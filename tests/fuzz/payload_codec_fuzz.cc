// SPDX-License-Identifier: Apache-2.0
// Any bytes, in slices of any size: decoded without harm, and what decodes is written and read
// again the same; what the generated decoder reads ours reads alike.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "rpc/payload_codec.h"
#include "tests/support/payload_bytes.h"
#include "weir/v1/parameter_server.pb.h"

namespace weir {
namespace {

void Require(bool claim, const char* what) {
  if (claim) return;
  std::fprintf(stderr, "broken claim: %s\n", what);
  std::abort();
}

grpc::ByteBuffer Received(const std::string& bytes, size_t slice_bytes) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += slice_bytes) {
    slices.emplace_back(bytes.substr(at, slice_bytes));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string Canonical(v1::PushRequest header) {
  header.clear_payload();
  header.DiscardUnknownFields();
  return header.SerializeAsString();
}

void Check(const std::string& bytes, size_t slice_bytes) {
  v1::PushRequest expected;
  const bool legal = expected.ParseFromString(bytes);
  v1::PushRequest header;
  absl::StatusOr<Payload> payload = DecodeMessage(Received(bytes, slice_bytes), header);
  Require(payload.ok() || absl::IsInvalidArgument(payload.status()), "errors are InvalidArgument");
  Require(payload.ok() || !legal, "a legal message decodes");
  if (!payload.ok()) return;
  const std::string payload_bytes = BytesOf(*payload);
  Require(!legal || payload_bytes == expected.payload(), "the payload is the generated decoder's");
  Require(!legal || Canonical(header) == Canonical(expected), "so is the header");

  const std::string canonical = Canonical(header);
  const absl::StatusOr<grpc::ByteBuffer> again = EncodeMessage(header, *std::move(payload));
  Require(again.ok(), "what was read can be written");
  v1::PushRequest header_again;
  const absl::StatusOr<Payload> payload_again = DecodeMessage(*again, header_again);
  Require(payload_again.ok() && BytesOf(*payload_again) == payload_bytes &&
              Canonical(header_again) == canonical,
          "and read again the same");
}

}  // namespace
}  // namespace weir

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  weir::Check(std::string(reinterpret_cast<const char*>(data) + 1, size - 1), 1 + data[0] % 64);
  return 0;
}
