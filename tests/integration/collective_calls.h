// SPDX-License-Identifier: Apache-2.0
// Collectives as tests call them, and jobs of several workers.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/support/client_kind.h"
#include "tests/support/client_values.h"
#include "tests/support/status_matchers.h"

namespace weir {

template <typename T>
DType DTypeOf() {
  if (std::is_same_v<T, float>) return DType::kFloat32;
  if (std::is_same_v<T, double>) return DType::kFloat64;
  if (std::is_same_v<T, int32_t>) return DType::kInt32;
  if (std::is_same_v<T, int64_t>) return DType::kInt64;
  return DType::kBool;
}

// The values as bytes; the shape is one extent where options has none and they are not one value.
template <typename T>
absl::StatusOr<std::vector<T>> Reduce(ParameterClient& client, const std::vector<T>& values,
                                      ReduceOptions options, ReduceStats* stats = nullptr) {
  options.dtype = DTypeOf<T>();
  options.timeout = std::min<absl::Duration>(options.timeout, absl::Seconds(60));
  if (options.name.empty()) options.name = "x";
  std::vector<std::byte> bytes;
  const absl::StatusOr<ReduceStats> reduced =
      client.Reduce({reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T)},
                    options, bytes);
  if (!reduced.ok()) return reduced.status();
  if (stats != nullptr) *stats = *reduced;
  std::vector<T> result(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

inline ReduceOptions Of(ReduceOp op, std::vector<uint64_t> shape, uint32_t ordinal = 0) {
  ReduceOptions options;
  options.op = op;
  options.shape = std::move(shape);
  options.ordinal = ordinal;
  return options;
}

inline std::unique_ptr<HandMadeJob> StartJob(ClientKind kind, size_t workers,
                                             v1::Regime regime = v1::REGIME_SYNC,
                                             uint64_t sync_group_size = 0) {
  HandMadeJob::Options options = ServedBy(kind, SgdOver({4}));
  options.regime = regime;
  options.regime_options.set_sync_group_size(sync_group_size);
  options.workers = workers;
  auto job = std::make_unique<HandMadeJob>(options);
  EXPECT_THAT(job->client(0).Assign(PushItems({{0, 0, 0, 0}})), IsOk());
  job->Run();
  return job;
}

// Three workers, each on its own thread.
class SharedCollective : public ::testing::TestWithParam<ClientKind> {
 protected:
  static constexpr size_t kWorkers = 3;

  void Start(size_t workers = kWorkers) { job_ = StartJob(GetParam(), workers); }

  void OnAll(const std::function<void(uint32_t rank, ParameterClient&)>& work) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      threads.emplace_back([&, rank] { work(rank, job_->client(rank)); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::unique_ptr<HandMadeJob> job_;
};

}  // namespace weir
