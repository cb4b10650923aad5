// SPDX-License-Identifier: Apache-2.0
// A server under a clock that tests move, a job made by hand, and calls whose answers are kept.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "proto/dtype.h"
#include "rpc/errors.h"
#include "server/parameter_server.h"
#include "server/parameter_store.h"
#include "tests/support/manual_executor.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/request_maker.h"
#include "tests/unit/server/view_maker.h"

namespace weir {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
Payload PayloadOf(const std::vector<T>& values) {
  auto* owned = new std::vector<T>(values);  // given back by the payload
  Payload payload;
  payload.Append(owned->data(), owned->size() * sizeof(T), owned,
                 [](void* owner) { delete static_cast<std::vector<T>*>(owner); });
  return payload;
}

// The same; `let_go` is called when the store gives it back, which of a push it does without any
// lock, when the values are applied and the push is still to be finished.
template <typename T>
Payload PayloadOf(const std::vector<T>& values, std::function<void()> let_go) {
  struct Owned {
    std::vector<T> values;
    std::function<void()> let_go;
  };
  auto owned = std::make_unique<Owned>(Owned{values, std::move(let_go)});
  Payload payload;
  const void* const data = owned->values.data();
  payload.Append(data, values.size() * sizeof(T), owned.release(), [](void* owner) {
    const std::unique_ptr<Owned> last(static_cast<Owned*>(owner));
    last->let_go();
  });
  return payload;
}

template <typename T>
std::vector<T> ValuesOf(const Payload& payload) {
  std::vector<T> values(payload.size() / sizeof(T));
  size_t offset = 0;
  for (const Payload::Slice& slice : payload.slices()) {
    if (slice.size == 0) continue;
    std::memcpy(reinterpret_cast<std::byte*>(values.data()) + offset, slice.data, slice.size);
    offset += slice.size;
  }
  return values;
}

// An answer, once it has come. Copies share it.
template <typename T>
class Answer {
 public:
  auto Callback() const {
    return [state = state_](absl::StatusOr<T> result) { state->emplace_back(std::move(result)); };
  }
  bool has_come() const { return !state_->empty(); }
  const absl::StatusOr<T>& get() const {
    EXPECT_EQ(state_->size(), 1u) << "answers";
    static const absl::StatusOr<T>* const kNone =
        new absl::StatusOr<T>(absl::UnknownError("no answer has come"));
    return state_->empty() ? *kNone : state_->front();
  }

 private:
  std::shared_ptr<std::deque<absl::StatusOr<T>>> state_ =
      std::make_shared<std::deque<absl::StatusOr<T>>>();
};

class ServerFixture : public ::testing::Test {
 protected:
  void MakeServer(uint64_t memory_limit_bytes = 0, uint64_t credit_bytes = 8 << 20) {
    server = std::make_unique<ParameterServer>(
        ParameterServer::Options{.name = "weir-server-0",
                                 .incarnation = kServer,
                                 .memory_limit_bytes = memory_limit_bytes,
                                 .credit_bytes = credit_bytes,
                                 .clock = &clock,
                                 .executor = &executor});
  }
  // Initialises every variable with zeros (of its type) by the first member, and lets the job run.
  void StartJob(ViewMaker& view) {
    if (server == nullptr) MakeServer();
    view.edit().set_state(v1::JOB_STATE_INITIALISING);
    WEIR_ASSERT_OK(server->ApplyView(view.Make()));
    const RequestMaker maker(view, view.view().initialiser());
    for (int v = 0; v < view.view().declaration().variables_size(); ++v) {
      const v1::Variable& variable = view.view().declaration().variables(v);
      const std::vector<v1::Segment> segments = maker.SegmentsOf(v);
      if (segments.empty()) continue;
      const std::vector<uint8_t> zeros(variable.shape(0) * ElementBytes(variable.dtype()));
      WEIR_ASSERT_OK(Assign(maker.Assign(segments), PayloadOf(zeros)));
    }
    view.edit().set_state(v1::JOB_STATE_RUNNING);
    WEIR_ASSERT_OK(server->ApplyView(view.NextVersion().Make()));
  }

  absl::Time Soon() const { return clock.Now() + absl::Seconds(30); }
  absl::StatusOr<v1::AssignReply> Assign(const v1::AssignRequest& request, Payload payload) {
    const Answer<v1::AssignReply> answer;
    server->Assign(request, std::move(payload), Soon(), answer.Callback());
    return answer.get();
  }
  Answer<PullResult> Pull(const v1::PullRequest& request) {
    Answer<PullResult> answer;
    server->Pull(request, Soon(), answer.Callback());
    return answer;
  }
  template <typename T>
  Answer<v1::PushReply> Push(const v1::PushRequest& request, const std::vector<T>& values) {
    Answer<v1::PushReply> answer;
    server->Push(request, PayloadOf(values), Soon(), answer.Callback());
    return answer;
  }
  template <typename T>
  Answer<PullResult> PushPull(const v1::PushRequest& request, const std::vector<T>& values) {
    Answer<PullResult> answer;
    server->PushPull(request, PayloadOf(values), Soon(), answer.Callback());
    return answer;
  }
  template <typename T = float>
  std::vector<T> Weights(const ViewMaker& view, uint64_t variable) {
    const RequestMaker reader(view, 0);
    const Answer<PullResult> answer = Pull(reader.Pull(reader.SegmentsOf(variable)));
    EXPECT_THAT(answer.get(), IsOk());
    return answer.get().ok() ? ValuesOf<T>(answer.get()->payload) : std::vector<T>();
  }

  FakeClock clock;
  ManualExecutor executor{clock};
  std::unique_ptr<ParameterServer> server;
};

inline std::vector<float> Filled(size_t count, float value) {
  return std::vector<float>(count, value);
}

}  // namespace weir
