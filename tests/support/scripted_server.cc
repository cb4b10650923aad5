// SPDX-License-Identifier: Apache-2.0
#include "tests/support/scripted_server.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "tests/support/unreliable_endpoint.h"

namespace weir {

void ScriptedServer::FailNext(absl::Status status) {
  MutexLock lock(mutex_);
  script_.push_back({std::move(status), absl::OkStatus()});
}
void ScriptedServer::LoseNextAnswer(absl::Status status) {
  MutexLock lock(mutex_);
  script_.push_back({absl::OkStatus(), std::move(status)});
}
void ScriptedServer::Park() {
  MutexLock lock(mutex_);
  parking_ = true;
}
void ScriptedServer::Release() {
  std::deque<std::pair<uint64_t, absl::AnyInvocable<void() &&>>> parked;
  {
    MutexLock lock(mutex_);
    parking_ = false;
    parked = std::exchange(parked_, {});
    for (const auto& entry : parked) in_flight_bytes_ -= entry.first;
  }
  for (auto& entry : parked) std::move(entry.second)();
}

std::vector<ScriptedServer::Seen> ScriptedServer::seen() const {
  MutexLock lock(mutex_);
  return seen_;
}
int ScriptedServer::greetings() const {
  MutexLock lock(mutex_);
  return greetings_;
}
uint64_t ScriptedServer::most_in_flight_bytes() const {
  MutexLock lock(mutex_);
  return most_in_flight_bytes_;
}

ScriptedServer::Verdict ScriptedServer::Next() {
  if (script_.empty()) return {};
  Verdict verdict = script_.front();
  script_.pop_front();
  return verdict;
}

void ScriptedServer::See(Seen seen) {
  seen_.push_back(std::move(seen));
}

void ScriptedServer::AnswerOrPark(uint64_t bytes, absl::AnyInvocable<void() &&> answer) {
  {
    MutexLock lock(mutex_);
    in_flight_bytes_ += bytes;
    most_in_flight_bytes_ = std::max(most_in_flight_bytes_, in_flight_bytes_);
    if (parking_) {
      parked_.emplace_back(bytes, std::move(answer));
      return;
    }
    in_flight_bytes_ -= bytes;
  }
  std::move(answer)();
}

void ScriptedServer::Apply(const v1::PushRequest& request, const Payload& payload) {
  size_t offset = 0;
  for (const v1::Segment& segment : request.segments()) {
    if (segment.absent()) continue;
    const bool is_new = counted_
                            .insert({request.context().worker(), request.group(),
                                     request.sequence(), segment.shard(), segment.first_element()})
                            .second;
    std::vector<float> gradients(segment.count());
    ForEachRun(payload, offset, segment.count(), sizeof(float),
               [&](const std::byte* data, size_t first, size_t count) {
                 std::memcpy(&gradients[first], data, count * sizeof(float));
               });
    for (size_t i = 0; is_new && i < gradients.size(); ++i) {
      weights_[{segment.shard(), segment.first_element() + i}] -= gradients[i];
    }
    offset += segment.count() * sizeof(float);
    if (is_new) ++versions_[segment.shard()];
  }
}

ScriptedServer::Verdict ScriptedServer::TakePush(const char* call, const v1::PushRequest& request,
                                                 const Payload& payload) {
  See({.call = call, .pull = {}, .push = request, .assign = {}, .payload_bytes = payload.size()});
  Verdict verdict = Next();
  if (verdict.before.ok()) Apply(request, payload);
  return verdict;
}

template <typename Request>
PullResult ScriptedServer::Read(const Request& request) {
  PullResult result;
  auto bytes = std::make_unique<std::vector<float>>();
  for (const v1::Segment& segment : request.segments()) {
    for (uint64_t i = 0; i < segment.count(); ++i) {
      bytes->push_back(weights_[{segment.shard(), segment.first_element() + i}]);
    }
    v1::Segment& answer = *result.header.add_segments();
    answer = segment;
    answer.set_absent(false);
    answer.set_version(versions_[segment.shard()]);
  }
  std::vector<float>* const owner = bytes.release();
  result.payload.Append(owner->data(), owner->size() * sizeof(float), owner, [](void* object) {
    const std::unique_ptr<std::vector<float>> last(static_cast<std::vector<float>*>(object));
  });
  return result;
}

void ScriptedServer::Hello(const v1::HelloRequest&, absl::Time, HelloDone done) {
  v1::HelloReply reply;
  reply.set_protocol(1);
  reply.set_server_incarnation(incarnation_);
  reply.set_credit_bytes(credit_bytes_);
  reply.set_payload_bytes(payload_bytes_);
  {
    MutexLock lock(mutex_);
    ++greetings_;
  }
  std::move(done)(reply);
}

void ScriptedServer::Pull(const v1::PullRequest& request, absl::Time, PullDone done) {
  absl::StatusOr<PullResult> answer;
  uint64_t bytes = 0;
  {
    MutexLock lock(mutex_);
    Seen seen{.call = "Pull", .pull = request, .push = {}, .assign = {}};
    See(std::move(seen));
    const Verdict verdict = Next();
    answer = verdict.before.ok() ? absl::StatusOr<PullResult>(Read(request)) : verdict.before;
    if (answer.ok()) bytes = answer->payload.size();
    if (!verdict.after.ok()) answer = verdict.after;
  }
  AnswerOrPark(bytes, [done = std::move(done), answer = std::move(answer)]() mutable {
    std::move(done)(std::move(answer));
  });
}

void ScriptedServer::Push(const v1::PushRequest& request, Payload payload, absl::Time,
                          PushDone done) {
  absl::Status status;
  {
    MutexLock lock(mutex_);
    const Verdict verdict = TakePush("Push", request, payload);
    status = verdict.before.ok() ? verdict.after : verdict.before;
  }
  const uint64_t bytes = payload.size();
  AnswerOrPark(bytes, [done = std::move(done), status, payload = std::move(payload)]() mutable {
    if (status.ok()) {
      std::move(done)(v1::PushReply());
    } else {
      std::move(done)(status);
    }
  });
}

void ScriptedServer::PushPull(const v1::PushRequest& request, Payload payload, absl::Time,
                              PullDone done) {
  absl::StatusOr<PullResult> answer;
  {
    MutexLock lock(mutex_);
    const Verdict verdict = TakePush("PushPull", request, payload);
    answer = verdict.before.ok() ? absl::StatusOr<PullResult>(Read(request)) : verdict.before;
    if (!verdict.after.ok()) answer = verdict.after;
  }
  const uint64_t bytes = payload.size();
  AnswerOrPark(bytes,
               [done = std::move(done), answer = std::move(answer),
                payload = std::move(payload)]() mutable { std::move(done)(std::move(answer)); });
}

void ScriptedServer::Assign(const v1::AssignRequest& request, Payload payload, absl::Time,
                            AssignDone done) {
  absl::Status status;
  {
    MutexLock lock(mutex_);
    See({.call = "Assign",
         .pull = {},
         .push = {},
         .assign = request,
         .payload_bytes = payload.size()});
    status = Next().before;
    size_t offset = 0;
    for (const v1::Segment& segment : request.segments()) {
      if (!status.ok()) break;
      std::vector<float> values(segment.count());
      ForEachRun(payload, offset, segment.count(), sizeof(float),
                 [&](const std::byte* data, size_t first, size_t count) {
                   std::memcpy(&values[first], data, count * sizeof(float));
                 });
      for (size_t i = 0; i < values.size(); ++i) {
        weights_[{segment.shard(), segment.first_element() + i}] = values[i];
      }
      offset += segment.count() * sizeof(float);
      versions_[segment.shard()] = 1;
    }
  }
  if (!status.ok()) return std::move(done)(status);
  std::move(done)(v1::AssignReply());
}

void ScriptedServer::Reduce(const v1::ReduceRequest& request, Payload payload, absl::Time,
                            ReduceDone done) {
  absl::StatusOr<ReduceResult> answer = ReduceResult();
  const uint64_t bytes = payload.size();
  {
    MutexLock lock(mutex_);
    See({.call = "Reduce",
         .pull = {},
         .push = {},
         .assign = {},
         .payload_bytes = bytes,
         .reduce = request});
    const Verdict verdict = Next();
    answer->header.set_generation(request.context().generation());
    answer->header.set_members(1);
    answer->header.set_weight(request.weight());
    answer->header.set_piece_elements(payload_bytes_ / sizeof(float));
    answer->payload = CopyOf(payload);
    if (!verdict.before.ok()) answer = verdict.before;
    if (!verdict.after.ok()) answer = verdict.after;
  }
  AnswerOrPark(bytes,
               [done = std::move(done), answer = std::move(answer),
                payload = std::move(payload)]() mutable { std::move(done)(std::move(answer)); });
}

}  // namespace weir
