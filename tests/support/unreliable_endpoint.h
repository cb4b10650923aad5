// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <random>

#include "common/clock.h"
#include "common/executor.h"
#include "common/mutex.h"
#include "rpc/parameter_endpoint.h"

namespace weir {

// A bad network before an endpoint: loses requests and answers (the caller sees Unavailable),
// delivers requests twice, and delays both, so that they overtake each other. What happens to a
// call follows from the seed and the order of the calls. Thread-safe.
class UnreliableEndpoint final : public ParameterEndpoint,
                                 public std::enable_shared_from_this<UnreliableEndpoint> {
 public:
  struct Options {
    double lose_request = 0;
    double lose_answer = 0;
    double duplicate = 0;
    double delay = 0;
    absl::Duration max_delay = absl::Milliseconds(5);
    uint64_t seed = 1;
  };

  // All must outlive this and its calls.
  UnreliableEndpoint(ParameterEndpoint& target, Executor& executor, Options options)
      : target_(target), executor_(executor), options_(options), random_(options.seed) {}

  void Hello(const v1::HelloRequest& request, absl::Time deadline, HelloDone done) override;
  void Pull(const v1::PullRequest& request, absl::Time deadline, PullDone done) override;
  void Push(const v1::PushRequest& request, Payload payload, absl::Time deadline,
            PushDone done) override;
  void PushPull(const v1::PushRequest& request, Payload payload, absl::Time deadline,
                PullDone done) override;
  void Assign(const v1::AssignRequest& request, Payload payload, absl::Time deadline,
              AssignDone done) override;
  void Reduce(const v1::ReduceRequest& request, Payload payload, absl::Time deadline,
              ReduceDone done) override;

 private:
  struct Fate {
    bool lose_request;
    bool lose_answer;
    bool duplicate;
    absl::Duration request_delay;
    absl::Duration answer_delay;
    absl::Duration duplicate_delay;
  };
  Fate Decide();
  void RunLater(absl::Duration delay, Task task);
  // Calls `call(done)`, once or twice, now or later.
  template <typename Answer, typename Call>
  void Deliver(Call call, absl::AnyInvocable<void(absl::StatusOr<Answer>) &&> done);

  ParameterEndpoint& target_;
  Executor& executor_;
  const Options options_;
  Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
};

// The same bytes, owned by the copy.
Payload CopyOf(const Payload& payload);

}  // namespace weir
