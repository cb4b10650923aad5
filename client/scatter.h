// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/message_cutter.h"
#include "rpc/parameter_endpoint.h"

namespace weir {

// Copies a reply's bytes to the destinations of the pieces that were asked for; segments that the
// reply marks absent are left alone. Nothing is written where the reply does not fit.
// Errors: Internal - other segments than asked for, absent ones where none may be, or more or fewer
// bytes than the segments hold.
absl::Status Scatter(const PullResult& reply, absl::Span<const Piece> pieces, bool may_be_absent);

// Of the pieces that are pushed.
uint64_t SourceBytes(absl::Span<const Piece> pieces);

}  // namespace weir
