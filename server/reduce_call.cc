// SPDX-License-Identifier: Apache-2.0
#include "server/reduce_call.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "rpc/collective_text.h"
#include "rpc/protocol.h"

namespace weir {
namespace {

constexpr int kMaxExtents = 64;
constexpr uint32_t kMaxReplicas = 1 << 16;

absl::StatusOr<uint64_t> ElementsOf(const v1::Collective& collective) {
  uint64_t elements = 1;
  for (const uint64_t extent : collective.shape()) {
    if (extent != 0 && elements > kMaxCollectiveElements / extent) {
      return absl::InvalidArgumentError(
          absl::StrCat(TextOf(collective), ": shape has too many elements"));
    }
    elements *= extent;
  }
  return elements;
}

absl::Status CheckCollective(const v1::Collective& collective) {
  if (collective.name().size() > kMaxCollectiveNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("name of a collective has ",
                                                   collective.name().size(), " bytes; at most ",
                                                   kMaxCollectiveNameBytes));
  }
  if (collective.shape_size() > kMaxExtents) {
    return absl::InvalidArgumentError(absl::StrCat("shape of '", collective.name(), "' has ",
                                                   collective.shape_size(), " extents; at most ",
                                                   kMaxExtents));
  }
  const auto bad = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(TextOf(collective), ": ", what));
  };
  if (!v1::ReduceOp_IsValid(collective.op()) || collective.op() == v1::REDUCE_OP_UNSPECIFIED) {
    return bad(absl::StrCat("op ", static_cast<int>(collective.op()), " is unknown"));
  }
  if (ElementBytes(collective.dtype()) == 0) {
    return bad(absl::StrCat("dtype ", static_cast<int>(collective.dtype()), " is unknown"));
  }
  if (collective.op() == v1::REDUCE_OP_MEAN && !IsFloating(collective.dtype())) {
    return bad("a mean of integers or truths is none; convert them, or take the SUM");
  }
  if (collective.replicas() == 0 || collective.replicas() > kMaxReplicas) {
    return bad(absl::StrCat("replicas is ", collective.replicas(), "; 1 to ", kMaxReplicas));
  }
  return absl::OkStatus();
}

absl::Status CheckRun(const v1::ReduceRequest& request, uint64_t elements, uint64_t piece_bytes) {
  const auto bad = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(TextOf(request.collective()), ", piece ", request.piece(), ": ", what));
  };
  if (request.first_element() > elements || request.count() > elements - request.first_element()) {
    return bad(absl::StrCat("elements ", request.first_element(), " + ", request.count(),
                            " go beyond its ", elements));
  }
  if ((request.piece() == 0) != (request.first_element() == 0)) {
    return bad("piece 0, and it alone, begins at element 0");
  }
  if (request.count() == 0 && elements > 0) return bad("count is 0");
  if (piece_bytes > kMaxMessageBytes) {
    return bad(absl::StrCat("more than ", kMaxMessageBytes, " bytes; cut it into more pieces"));
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t ReduceCall::BytesFrom(const MemberInfo& member) const {
  return collective.op() == v1::REDUCE_OP_BROADCAST && !IsSource(member) ? 0 : bytes();
}

absl::StatusOr<ReduceCall> CheckReduce(const v1::ReduceRequest& request) {
  if (static_cast<WorkerId>(request.context().worker()) == WorkerId::kReader) {
    return absl::InvalidArgumentError("worker is 0: a reader may only pull");
  }
  if (request.sequence() == 0) {
    return absl::InvalidArgumentError("sequence is 0; collectives are counted from 1");
  }
  WEIR_RETURN_IF_ERROR(CheckCollective(request.collective()));
  WEIR_ASSIGN_OR_RETURN(const uint64_t elements, ElementsOf(request.collective()));
  if (!std::isfinite(request.weight()) || request.weight() < 0) {
    return absl::InvalidArgumentError(absl::StrCat(TextOf(request.collective()), ": weight is ",
                                                   request.weight(),
                                                   "; it must be finite and not negative"));
  }
  ReduceCall call{.worker = static_cast<WorkerId>(request.context().worker()),
                  .generation = request.context().generation(),
                  .sequence = request.sequence(),
                  .step = request.step(),
                  .ordinal = request.ordinal(),
                  .piece = request.piece(),
                  .step_generation = request.step_generation(),
                  .pieces_done = request.pieces_done(),
                  .collective = request.collective(),
                  .first_element = request.first_element(),
                  .count = request.count(),
                  .element_bytes = ElementBytes(request.collective().dtype()),
                  .weight = request.weight()};
  WEIR_RETURN_IF_ERROR(CheckRun(request, elements, call.bytes()));
  return call;
}

bool AreAlike(const ReduceCall& a, const ReduceCall& b) {
  return a.step == b.step && a.ordinal == b.ordinal && a.piece == b.piece &&
         a.collective.name() == b.collective.name() && a.collective.op() == b.collective.op() &&
         a.collective.dtype() == b.collective.dtype() &&
         std::equal(a.collective.shape().begin(), a.collective.shape().end(),
                    b.collective.shape().begin(), b.collective.shape().end()) &&
         a.collective.replicas() == b.collective.replicas() &&
         a.collective.source() == b.collective.source() && a.first_element == b.first_element &&
         a.count == b.count;
}

}  // namespace weir
