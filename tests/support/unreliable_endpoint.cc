// SPDX-License-Identifier: Apache-2.0
#include "tests/support/unreliable_endpoint.h"

#include <utility>
#include <vector>

namespace weir {

Payload CopyOf(const Payload& payload) {
  auto bytes = std::make_unique<std::vector<std::byte>>();
  bytes->reserve(payload.size());
  for (const Payload::Slice& slice : payload.slices()) {
    bytes->insert(bytes->end(), slice.data, slice.data + slice.size);
  }
  Payload copy;
  if (bytes->empty()) return copy;
  std::vector<std::byte>* const owner = bytes.release();
  copy.Append(owner->data(), owner->size(), owner, [](void* object) {
    const std::unique_ptr<std::vector<std::byte>> last(
        static_cast<std::vector<std::byte>*>(object));
  });
  return copy;
}

UnreliableEndpoint::Fate UnreliableEndpoint::Decide() {
  MutexLock lock(mutex_);
  // The analysis does not see that a lambda runs under the lock.
  const auto happens = [](std::mt19937_64& random, double probability) {
    return std::uniform_real_distribution<double>()(random) < probability;
  };
  const auto delay = [&](std::mt19937_64& random) {
    const double part = std::uniform_real_distribution<double>()(random);
    return happens(random, options_.delay) ? options_.max_delay * part : absl::ZeroDuration();
  };
  Fate fate{};
  fate.lose_request = happens(random_, options_.lose_request);
  fate.lose_answer = happens(random_, options_.lose_answer);
  fate.duplicate = happens(random_, options_.duplicate);
  fate.request_delay = delay(random_);
  fate.answer_delay = delay(random_);
  fate.duplicate_delay = delay(random_);
  return fate;
}

void UnreliableEndpoint::RunLater(absl::Duration delay, Task task) {
  if (delay == absl::ZeroDuration()) return std::move(task)();
  executor_.RunAfter(delay, std::move(task));
}

template <typename Answer, typename Call>
void UnreliableEndpoint::Deliver(Call call,
                                 absl::AnyInvocable<void(absl::StatusOr<Answer>) &&> done) {
  const Fate fate = Decide();
  auto self = shared_from_this();
  if (fate.lose_request) {
    RunLater(fate.answer_delay, [done = std::move(done)]() mutable {
      std::move(done)(absl::UnavailableError("the request was lost"));
    });
    return;
  }
  auto shared_call = std::make_shared<Call>(std::move(call));
  auto answer = [self, fate, done = std::move(done)](absl::StatusOr<Answer> answer) mutable {
    if (fate.lose_answer) answer = absl::UnavailableError("the answer was lost");
    self->RunLater(fate.answer_delay,
                   [done = std::move(done), answer = std::move(answer)]() mutable {
                     std::move(done)(std::move(answer));
                   });
  };
  if (fate.duplicate) {
    RunLater(fate.duplicate_delay,
             [self, shared_call] { (*shared_call)([](absl::StatusOr<Answer>) {}); });
  }
  RunLater(fate.request_delay, [self, shared_call, answer = std::move(answer)]() mutable {
    (*shared_call)(std::move(answer));
  });
}

void UnreliableEndpoint::Hello(const v1::HelloRequest& request, absl::Time deadline,
                               HelloDone done) {
  Deliver<v1::HelloReply>(
      [this, request, deadline](HelloDone answer) {
        target_.Hello(request, deadline, std::move(answer));
      },
      std::move(done));
}

void UnreliableEndpoint::Pull(const v1::PullRequest& request, absl::Time deadline, PullDone done) {
  Deliver<PullResult>([this, request, deadline](
                          PullDone answer) { target_.Pull(request, deadline, std::move(answer)); },
                      std::move(done));
}

// The bytes are copied: a network that delivers late or twice cannot hold on to the sender's
// memory.
void UnreliableEndpoint::Push(const v1::PushRequest& request, Payload payload, absl::Time deadline,
                              PushDone done) {
  auto bytes = std::make_shared<Payload>(CopyOf(payload));
  Deliver<v1::PushReply>(
      [this, request, bytes, deadline](PushDone answer) {
        target_.Push(request, CopyOf(*bytes), deadline, std::move(answer));
      },
      std::move(done));
}

void UnreliableEndpoint::PushPull(const v1::PushRequest& request, Payload payload,
                                  absl::Time deadline, PullDone done) {
  auto bytes = std::make_shared<Payload>(CopyOf(payload));
  Deliver<PullResult>(
      [this, request, bytes, deadline](PullDone answer) {
        target_.PushPull(request, CopyOf(*bytes), deadline, std::move(answer));
      },
      std::move(done));
}

void UnreliableEndpoint::Assign(const v1::AssignRequest& request, Payload payload,
                                absl::Time deadline, AssignDone done) {
  auto bytes = std::make_shared<Payload>(CopyOf(payload));
  Deliver<v1::AssignReply>(
      [this, request, bytes, deadline](AssignDone answer) {
        target_.Assign(request, CopyOf(*bytes), deadline, std::move(answer));
      },
      std::move(done));
}

void UnreliableEndpoint::Reduce(const v1::ReduceRequest& request, Payload payload,
                                absl::Time deadline, ReduceDone done) {
  auto bytes = std::make_shared<Payload>(CopyOf(payload));
  Deliver<ReduceResult>(
      [this, request, bytes, deadline](ReduceDone answer) {
        target_.Reduce(request, CopyOf(*bytes), deadline, std::move(answer));
      },
      std::move(done));
}

}  // namespace weir
