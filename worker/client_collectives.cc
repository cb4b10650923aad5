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

absl::StatusOr<std::vector<Present>> ClientCollectives::CallRoll(const CollectivePlace& place,
                                                                 bool newcomer) {
  ReduceOptions options = OptionsAt(place);
  options.name = "who takes part";
  options.op = ReduceOp::kGather;
  options.dtype = DType::kInt32;
  options.shape = {2};
  const uint32_t mine[] = {options_.rank, newcomer ? 1u : 0u};
  std::vector<std::byte> result;
  WEIR_RETURN_IF_ERROR(
      Reduce({reinterpret_cast<const std::byte*>(mine), sizeof(mine)}, options, result));
  std::vector<uint32_t> numbers(result.size() / sizeof(uint32_t));
  std::memcpy(numbers.data(), result.data(), numbers.size() * sizeof(uint32_t));
  std::vector<Present> all;
  for (size_t i = 0; i + 1 < numbers.size(); i += 2) {
    all.push_back({numbers[i], numbers[i + 1] != 0});
  }
  return all;
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
  return Reduce(data, options, result);
}

absl::Status ClientCollectives::Reduce(absl::Span<const std::byte> data,
                                       const ReduceOptions& options,
                                       std::vector<std::byte>& result) {
  const absl::Time began = clock_.Now();
  const absl::Status status = client_.Reduce(data, options, result).status();
  waited_ += clock_.Now() - began;
  return status;
}

}  // namespace weir
