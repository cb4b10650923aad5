// SPDX-License-Identifier: Apache-2.0
// Messages that carry tensors, on the wire. The same bytes as protobuf writes, made of slices, so
// that a tensor is never copied into a protobuf string:
//
//   slice 0 (ours)                                        slices 1 .. n (the payload's own)
//   +--------------------------------+------+-----------+ +----------------+   +----------------+
//   | header: fields 1 .. 14 as      | 0x7A | length    | | bytes of the   |...| bytes of the   |
//   | protobuf serialises them       |      | (varint)  | | first chunk    |   | last chunk     |
//   +--------------------------------+------+-----------+ +----------------+   +----------------+
//                                    ^ field 15, wire type 2 (length-delimited): `payload`
//
// An empty payload is left out, as proto3 does. Writers put the payload last. Readers take any
// legal order: fields after the payload, several payloads (the last wins), unknown fields and
// groups, and slices that end anywhere.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/payload.h"
#include "rpc/protocol.h"

namespace weir {

inline constexpr int kPayloadField = 15;

// The message `header` (its own payload field left empty) with `payload`, without copying the
// latter. Owners in the payload are released when gRPC has let go of the bytes: after a failed or
// cancelled call that may be a little after its callback. Bytes without an owner must outlive the
// call's transport. Errors: InvalidArgument - the message would be larger than kMaxMessageBytes;
// all owners are released.
absl::StatusOr<grpc::ByteBuffer> EncodeMessage(const google::protobuf::Message& header,
                                               Payload payload);

// Parses `buffer` into `header`, all but the payload, which it returns as references to the
// buffer's slices. `header` is garbage after an error. Safe with any bytes whatever. Errors:
// InvalidArgument - names the message, and the field that is cut off, malformed or too large.
absl::StatusOr<Payload> DecodeMessage(const grpc::ByteBuffer& buffer,
                                      google::protobuf::Message& header);

}  // namespace weir
