// SPDX-License-Identifier: Apache-2.0
#include "client/routed_parameter_client.h"

#include <optional>
#include <utility>

#include "common/mutex.h"
#include "common/status_macros.h"

namespace weir {
namespace {

constexpr absl::Duration kAssignTimeout = absl::Minutes(10);

// Where a caller waits for its transfer. Shared with the callback, which may still be leaving Set
// when the caller has gone on.
class Outcome {
 public:
  static TransferEngine::Done SetBy(std::shared_ptr<Outcome> outcome) {
    return [outcome = std::move(outcome)](absl::StatusOr<TransferResult> result) {
      MutexLock lock(outcome->mutex_);
      outcome->result_ = std::move(result);
      outcome->set_.NotifyAll();
    };
  }
  absl::StatusOr<TransferResult> Wait() {
    MutexLock lock(mutex_);
    while (!result_.has_value()) set_.Wait(mutex_);
    return *result_;
  }

 private:
  Mutex mutex_;
  CondVar set_;
  std::optional<absl::StatusOr<TransferResult>> result_ ABSL_GUARDED_BY(mutex_);
};

class TransferUnderWay final : public PendingPush {
 public:
  explicit TransferUnderWay(std::shared_ptr<Outcome> outcome) : outcome_(std::move(outcome)) {}
  ~TransferUnderWay() override { (void)outcome_->Wait(); }

  absl::StatusOr<PushStats> Wait() override {
    WEIR_ASSIGN_OR_RETURN(const TransferResult result, outcome_->Wait());
    const bool repeated =
        result.push_messages > 0 && result.repeated_messages == result.push_messages;
    PushStats stats;
    stats.repeated = repeated;
    stats.staleness = result.staleness;
    stats.bytes = result.bytes;
    stats.sending = result.sending;
    stats.waiting = result.waiting;
    stats.receiving = result.receiving;
    stats.late = result.late;
    stats.next_step = result.next_step;
    stats.next_group_step = result.next_group_step;
    return stats;
  }

 private:
  const std::shared_ptr<Outcome> outcome_;
};

}  // namespace

absl::Status RoutedParameterClient::Assign(absl::Span<const PushItem> values) {
  auto outcome = std::make_shared<Outcome>();
  engine_->StartAssign(values, kAssignTimeout, Outcome::SetBy(outcome));
  return outcome->Wait().status();
}

absl::StatusOr<PullStats> RoutedParameterClient::Pull(absl::Span<const PullItem> into,
                                                      const PullOptions& options) {
  auto outcome = std::make_shared<Outcome>();
  engine_->StartPull(into, options, Outcome::SetBy(outcome));
  WEIR_ASSIGN_OR_RETURN(const TransferResult result, outcome->Wait());
  return PullStats{result.examples, result.bytes, result.slowest_step, result.group_steps};
}

absl::StatusOr<PushStats> RoutedParameterClient::Push(absl::Span<const PushItem> gradients,
                                                      const PushOptions& options) {
  return StartPushPull(gradients, {}, options)->Wait();
}

absl::StatusOr<PushStats> RoutedParameterClient::PushPull(absl::Span<const PushItem> gradients,
                                                          absl::Span<const PullItem> into,
                                                          const PushOptions& options) {
  return StartPushPull(gradients, into, options)->Wait();
}

std::unique_ptr<PendingPush> RoutedParameterClient::StartPushPull(
    absl::Span<const PushItem> gradients, absl::Span<const PullItem> into,
    const PushOptions& options) {
  auto outcome = std::make_shared<Outcome>();
  engine_->StartPush(gradients, into, options, Outcome::SetBy(outcome));
  return std::make_unique<TransferUnderWay>(std::move(outcome));
}

absl::StatusOr<ReduceStats> RoutedParameterClient::Reduce(absl::Span<const std::byte> data,
                                                          const ReduceOptions& options,
                                                          std::vector<std::byte>& result) {
  auto outcome = std::make_shared<Outcome>();
  engine_->StartReduce(data, options, result, Outcome::SetBy(outcome));
  WEIR_ASSIGN_OR_RETURN(const TransferResult reduced, outcome->Wait());
  return reduced.reduced;
}

}  // namespace weir
