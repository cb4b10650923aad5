// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "client/transfer_engine.h"
#include "weir/parameter_client.h"

namespace weir {

// The ParameterClient over whatever endpoints a job's views name: servers on a network, or an
// object in this process. Blocks its callers; what works is the engine. Thread-safe.
class RoutedParameterClient final : public ParameterClient {
 public:
  explicit RoutedParameterClient(std::shared_ptr<TransferEngine> engine)
      : engine_(std::move(engine)) {}
  // Ends what is under way with Cancelled.
  ~RoutedParameterClient() override { engine_->Shutdown(); }

  absl::Status Assign(absl::Span<const PushItem> values) override;
  absl::StatusOr<PullStats> Pull(absl::Span<const PullItem> into,
                                 const PullOptions& options) override;
  absl::StatusOr<PushStats> Push(absl::Span<const PushItem> gradients,
                                 const PushOptions& options) override;
  absl::StatusOr<PushStats> PushPull(absl::Span<const PushItem> gradients,
                                     absl::Span<const PullItem> into,
                                     const PushOptions& options) override;
  std::unique_ptr<PendingPush> StartPushPull(absl::Span<const PushItem> gradients,
                                             absl::Span<const PullItem> into,
                                             const PushOptions& options) override;
  absl::StatusOr<ReduceStats> Reduce(absl::Span<const std::byte> data, const ReduceOptions& options,
                                     std::vector<std::byte>& result) override;

 private:
  const std::shared_ptr<TransferEngine> engine_;  // shared with its callbacks
};

}  // namespace weir
