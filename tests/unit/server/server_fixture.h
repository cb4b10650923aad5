// SPDX-License-Identifier: Apache-2.0
// A server under a clock that tests move, a job made by hand, and calls whose answers are kept.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "proto/dtype.h"
#include "rpc/errors.h"
#include "server/parameter_server.h"
#include "server/parameter_store.h"
#include "sharding/layout.h"
#include "tests/support/manual_executor.h"
#include "tests/support/status_matchers.h"

namespace weir {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kServer = 0x5e;
constexpr uint64_t kRun = 0x7;
constexpr uint64_t kChunkBytes = 64;

// A view of a running job. Chunks are tiny, so that small variables have many.
class ViewMaker {
 public:
  ViewMaker() {
    view_.set_run_id(kRun);
    view_.set_name("job");
    view_.set_version(1);
    view_.set_term(1);
    view_.set_attempt(1);
    view_.set_generation(1);
    view_.set_state(v1::JOB_STATE_INITIALISING);
    view_.mutable_spec()->mutable_regime()->set_kind(v1::REGIME_ASYNC);
    v1::ServerInfo& server = *view_.mutable_shard_map()->add_servers();
    server.set_name("weir-server-0");
    server.set_incarnation(kServer);
    view_.mutable_shard_map()->set_version(1);
    chunk_bytes = kChunkBytes;
    shard_bytes = 4 * kChunkBytes;
    AddGroup("sgd");
  }

  ViewMaker& Sync() {
    view_.mutable_spec()->mutable_regime()->set_kind(v1::REGIME_SYNC);
    return *this;
  }
  ViewMaker& BoundedStaleness(uint64_t bound) {
    view_.mutable_spec()->mutable_regime()->set_kind(v1::REGIME_BOUNDED_STALENESS);
    view_.mutable_spec()->mutable_regime()->set_bounded_staleness(bound);
    return *this;
  }
  ViewMaker& SyncGroups(uint64_t size) {
    view_.mutable_spec()->mutable_regime()->set_kind(v1::REGIME_SYNC_GROUPS);
    view_.mutable_spec()->mutable_regime()->set_sync_group_size(size);
    return *this;
  }
  ViewMaker& BackupWorkers(uint32_t workers) {
    view_.mutable_spec()->mutable_regime()->set_backup_workers(workers);
    return *this;
  }
  ViewMaker& Deterministic() {
    view_.mutable_spec()->set_deterministic(true);
    return *this;
  }
  // Plain gradient descent with rate 1.
  v1::OptimizerGroup& AddGroup(const std::string& name) {
    v1::OptimizerGroup& group = *view_.mutable_declaration()->add_groups();
    group.set_name(name);
    group.mutable_optimizer()->mutable_learning_rate()->set_base(1);
    group.mutable_optimizer()->mutable_sgd();
    return group;
  }
  v1::Optimizer& optimizer() {
    return *view_.mutable_declaration()->mutable_groups(0)->mutable_optimizer();
  }
  ViewMaker& AddVariable(const std::string& name, uint64_t elements, uint32_t group = 1,
                         v1::DType dtype = v1::DTYPE_F32,
                         v1::Aggregation aggregation = v1::AGGREGATION_UNSPECIFIED) {
    v1::Variable& variable = *view_.mutable_declaration()->add_variables();
    variable.set_name(name);
    variable.set_dtype(dtype);
    variable.add_shape(elements);
    variable.set_group(group);
    variable.set_aggregation(aggregation);
    return *this;
  }
  ViewMaker& AddMember(uint64_t worker, uint64_t first_step = 0) {
    v1::Member& member = *view_.add_members();
    member.set_rank(next_rank_++);
    member.set_worker(worker);
    member.set_first_step(first_step);
    view_.mutable_spec()->set_workers(view_.members_size());
    if (view_.initialiser() == 0) view_.set_initialiser(worker);
    return *this;
  }
  ViewMaker& RemoveMember(uint64_t worker) {
    for (int i = 0; i < view_.members_size(); ++i) {
      if (view_.members(i).worker() != worker) continue;
      view_.mutable_members()->DeleteSubrange(i, 1);
      break;
    }
    return *this;
  }
  // What the coordinator does with every change.
  ViewMaker& NextVersion() {
    view_.set_version(view_.version() + 1);
    return *this;
  }
  ViewMaker& NextGeneration() {
    view_.set_generation(view_.generation() + 1);
    return NextVersion();
  }
  v1::JobView& edit() { return view_; }
  const v1::JobView& view() const { return view_; }

  // With the shard map that belongs to the declaration; all on this server but where `elsewhere`
  // says so.
  v1::JobView Make(const std::vector<uint64_t>& elsewhere = {}) const {
    v1::JobView view = view_;
    v1::ShardMap& map = *view.mutable_shard_map();
    const Layout layout = MakeLayout();
    map.set_chunk_bytes(layout.chunk_bytes());
    map.set_shard_bytes(layout.shard_bytes());
    map.clear_server_of_shard();
    for (size_t s = 0; s < layout.shards().size(); ++s) map.add_server_of_shard(0);
    if (elsewhere.empty()) return view;
    map.add_servers()->set_incarnation(kServer + 1);
    for (const uint64_t shard : elsewhere) map.set_server_of_shard(static_cast<int>(shard), 1);
    return view;
  }
  Layout MakeLayout() const {
    std::vector<VariableExtent> extents;
    for (const v1::Variable& variable : view_.declaration().variables()) {
      extents.push_back(
          {.elements = variable.shape(0), .element_bytes = ElementBytes(variable.dtype())});
    }
    return Layout(extents, shard_bytes, chunk_bytes);
  }

  uint64_t chunk_bytes = 0;
  uint64_t shard_bytes = 0;

 private:
  v1::JobView view_;
  uint32_t next_rank_ = 0;
};

template <typename T>
Payload PayloadOf(const std::vector<T>& values) {
  auto* owned = new std::vector<T>(values);  // given back by the payload
  Payload payload;
  payload.Append(owned->data(), owned->size() * sizeof(T), owned,
                 [](void* owner) { delete static_cast<std::vector<T>*>(owner); });
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

// Requests of one worker, with whole variables as segments.
class RequestMaker {
 public:
  RequestMaker(const ViewMaker& view, uint64_t worker) : view_(view), worker_(worker) {}

  v1::RequestContext Context() const {
    v1::RequestContext context;
    context.set_run_id(view_.view().run_id());
    context.set_attempt(view_.view().attempt());
    context.set_generation(view_.view().generation());
    context.set_shard_map_version(view_.view().shard_map().version());
    context.set_worker(worker_);
    context.set_server_incarnation(kServer);
    return context;
  }
  // One segment a shard.
  std::vector<v1::Segment> SegmentsOf(uint64_t variable) const {
    std::vector<v1::Segment> segments;
    const Layout layout = view_.MakeLayout();
    for (const Shard& shard : layout.ShardsOf(static_cast<VariableId>(variable))) {
      v1::Segment& segment = segments.emplace_back();
      segment.set_shard(static_cast<uint64_t>(shard.id));
      segment.set_count(shard.elements);
    }
    return segments;
  }
  v1::PullRequest Pull(const std::vector<v1::Segment>& segments, uint64_t step = 0) const {
    v1::PullRequest request;
    *request.mutable_context() = Context();
    request.set_step(step);
    for (const v1::Segment& segment : segments) *request.add_segments() = segment;
    return request;
  }
  v1::PushRequest Push(const std::vector<v1::Segment>& segments, uint64_t sequence,
                       uint32_t group = 1) const {
    v1::PushRequest request;
    *request.mutable_context() = Context();
    request.set_group(group);
    request.set_sequence(sequence);
    request.set_step(sequence - 1);
    request.set_group_step(sequence - 1);
    request.set_weight(1);
    request.set_examples(1);
    for (const v1::Segment& segment : segments) *request.add_segments() = segment;
    return request;
  }
  v1::AssignRequest Assign(const std::vector<v1::Segment>& segments) const {
    v1::AssignRequest request;
    *request.mutable_context() = Context();
    for (const v1::Segment& segment : segments) *request.add_segments() = segment;
    return request;
  }

 private:
  const ViewMaker& view_;
  const uint64_t worker_;
};

// One segment of `count` elements.
inline std::vector<v1::Segment> OneSegment(uint64_t shard, uint64_t first, uint64_t count) {
  v1::Segment segment;
  segment.set_shard(shard);
  segment.set_first_element(first);
  segment.set_count(count);
  return {segment};
}

inline std::vector<v1::Segment> Absent(std::vector<v1::Segment> segments) {
  for (v1::Segment& segment : segments) segment.set_absent(true);
  return segments;
}

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
