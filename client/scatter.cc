// SPDX-License-Identifier: Apache-2.0
#include "client/scatter.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace weir {
namespace {

absl::Status CheckReply(const PullResult& reply, absl::Span<const Piece> pieces,
                        bool may_be_absent) {
  if (static_cast<size_t>(reply.header.segments_size()) != pieces.size()) {
    return absl::InternalError(absl::StrCat("the reply has ", reply.header.segments_size(),
                                            " segments; ", pieces.size(), " were asked for"));
  }
  uint64_t bytes = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const v1::Segment& segment = reply.header.segments(static_cast<int>(i));
    if (segment.shard() != pieces[i].shard || segment.count() != pieces[i].elements ||
        segment.first_element() != pieces[i].first_element ||
        (segment.absent() && !may_be_absent)) {
      return absl::InternalError(
          absl::StrCat("the reply's segment ", i, " is not the one that was asked for"));
    }
    if (!segment.absent()) bytes += pieces[i].data_bytes();
  }
  if (bytes != reply.payload.size()) {
    return absl::InternalError(absl::StrCat("the reply has ", reply.payload.size(),
                                            " bytes of payload; its segments hold ", bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Scatter(const PullResult& reply, absl::Span<const Piece> pieces, bool may_be_absent) {
  WEIR_RETURN_IF_ERROR(CheckReply(reply, pieces, may_be_absent));
  size_t slice = 0;
  size_t offset = 0;  // within the slice
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (reply.header.segments(static_cast<int>(i)).absent()) continue;
    std::byte* to = pieces[i].destination;
    for (uint64_t left = pieces[i].data_bytes(); left > 0;) {
      const Payload::Slice& from = reply.payload.slices()[slice];
      const uint64_t count = std::min<uint64_t>(left, from.size - offset);
      if (count > 0) std::memcpy(to, from.data + offset, count);
      to += count;
      left -= count;
      offset += count;
      if (offset == from.size) {
        ++slice;
        offset = 0;
      }
    }
  }
  return absl::OkStatus();
}

uint64_t SourceBytes(absl::Span<const Piece> pieces) {
  uint64_t bytes = 0;
  for (const Piece& piece : pieces) {
    if (piece.source != nullptr) bytes += piece.data_bytes();
  }
  return bytes;
}

}  // namespace weir
