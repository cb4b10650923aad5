// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/mutex.h"
#include "rpc/parameter_endpoint.h"

namespace weir {

// A server for tests of the client: keeps bytes of f32 weights by (shard, first element), subtracts
// gradients (SGD of learning rate 1), answers a collective with what it was sent, counts each chunk
// run of a sequence once, remembers what it was asked, and fails as it is told. Knows no views.
// Thread-safe.
class ScriptedServer final : public ParameterEndpoint {
 public:
  struct Seen {
    std::string call;  // "Pull", "Push", "PushPull", "Assign", "Reduce"
    v1::PullRequest pull;
    v1::PushRequest push;
    v1::AssignRequest assign;
    uint64_t payload_bytes = 0;
    v1::ReduceRequest reduce{};
  };

  ScriptedServer(uint64_t incarnation, uint64_t credit_bytes = 8 << 20,
                 uint64_t payload_bytes = 1 << 20)
      : incarnation_(incarnation), credit_bytes_(credit_bytes), payload_bytes_(payload_bytes) {}

  // The next calls, but Hello, are answered so, in order, instead of being carried out.
  void FailNext(absl::Status status);
  // The next answers are lost: carried out, and answered so.
  void LoseNextAnswer(absl::Status status);
  // Calls wait, unanswered, until Release.
  void Park();
  void Release();

  std::vector<Seen> seen() const;
  int greetings() const;
  uint64_t most_in_flight_bytes() const;

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
  using Place = std::pair<uint64_t, uint64_t>;  // shard, element
  struct Verdict {
    absl::Status before;
    absl::Status after;
  };

  Verdict Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void See(Seen seen) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Apply(const v1::PushRequest& request, const Payload& payload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sees it, and applies it where the script lets it.
  Verdict TakePush(const char* call, const v1::PushRequest& request, const Payload& payload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename Request>
  PullResult Read(const Request& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AnswerOrPark(uint64_t bytes, absl::AnyInvocable<void() &&> answer);

  const uint64_t incarnation_;
  const uint64_t credit_bytes_;
  const uint64_t payload_bytes_;
  mutable Mutex mutex_;
  std::map<Place, float> weights_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, uint64_t> versions_ ABSL_GUARDED_BY(mutex_);  // by shard
  std::set<std::tuple<uint64_t, uint32_t, uint64_t, uint64_t, uint64_t>> counted_
      ABSL_GUARDED_BY(mutex_);  // worker, group, sequence, shard, first element
  std::deque<Verdict> script_ ABSL_GUARDED_BY(mutex_);
  std::vector<Seen> seen_ ABSL_GUARDED_BY(mutex_);
  int greetings_ ABSL_GUARDED_BY(mutex_) = 0;
  bool parking_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::pair<uint64_t, absl::AnyInvocable<void() &&>>> parked_ ABSL_GUARDED_BY(mutex_);
  uint64_t in_flight_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t most_in_flight_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace weir
