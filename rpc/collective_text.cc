// SPDX-License-Identifier: Apache-2.0
#include "rpc/collective_text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace weir {
namespace {

std::string OpText(const v1::Collective& collective) {
  switch (collective.op()) {
    case v1::REDUCE_OP_GATHER:
      return "AllGather";
    case v1::REDUCE_OP_BROADCAST:
      return absl::StrCat("Broadcast(from replica ", collective.source(), ")");
    default:
      return absl::StrCat("AllReduce(",
                          absl::StripPrefix(v1::ReduceOp_Name(collective.op()), "REDUCE_OP_"), ")");
  }
}

}  // namespace

std::string TextOf(const v1::Collective& collective) {
  const std::string dtype = v1::DType_Name(collective.dtype());
  return absl::StrCat(
      OpText(collective), " \"", collective.name(), "\" ",
      absl::AsciiStrToLower(absl::StripPrefix(dtype, "DTYPE_")), "[",
      absl::StrJoin(collective.shape(), ","), "]",
      collective.replicas() > 1 ? absl::StrCat(" of ", collective.replicas(), " replicas") : "");
}

std::string PlaceText(uint64_t step, uint32_t ordinal) {
  return absl::StrCat("collective ", ordinal, " of step ", step);
}

}  // namespace weir
