// SPDX-License-Identifier: Apache-2.0
#include "worker/client_collectives.h"

#include <cstring>

#include "common/status_macros.h"

namespace weir {

ReduceOptions ClientCollectives::OptionsAt(const CollectivePlace& place) const {
  ReduceOptions options;
  options.step = place.step;
  options.ordinal = place.ordinal;
  options.timeout = options_.timeout;
  return options;
}

absl::StatusOr<std::vector<uint32_t>> ClientCollectives::CallRoll(const CollectivePlace& place) {
  ReduceOptions options = OptionsAt(place);
  options.name = "who takes part";
  options.op = ReduceOp::kGather;
  options.dtype = DType::kInt32;
  const uint32_t rank = options_.rank;
  std::vector<std::byte> result;
  WEIR_RETURN_IF_ERROR(
      client_.Reduce({reinterpret_cast<const std::byte*>(&rank), sizeof(rank)}, options, result)
          .status());
  std::vector<uint32_t> ranks(result.size() / sizeof(rank));
  std::memcpy(ranks.data(), result.data(), ranks.size() * sizeof(rank));
  return ranks;
}

absl::Status ClientCollectives::Run(const CollectiveCall& call, const CollectivePlace& place,
                                    absl::Span<const std::byte> data,
                                    std::vector<std::byte>& result) {
  ReduceOptions options = OptionsAt(place);
  options.name = call.name;
  options.op = call.op;
  options.dtype = call.dtype;
  options.shape = call.shape;
  options.replicas = options_.replicas;
  options.weight = call.weight;
  options.source = call.source;
  return client_.Reduce(data, options, result).status();
}

}  // namespace weir
