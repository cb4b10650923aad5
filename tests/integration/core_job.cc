// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/core_job.h"

#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace weir {
namespace {

uint64_t ElementsOf(const v1::Variable& variable) {
  uint64_t elements = 1;
  for (const uint64_t extent : variable.shape()) elements *= extent;
  return elements;
}

uint32_t BytesOf(v1::DType dtype) {
  if (dtype == v1::DTYPE_BOOL) return 1;
  return dtype == v1::DTYPE_F64 || dtype == v1::DTYPE_I64 ? 8 : 4;
}

template <typename T>
void AppendValue(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendAs(v1::DType dtype, double value, std::string& to) {
  switch (dtype) {
    case v1::DTYPE_F32:
      return AppendValue(to, static_cast<float>(value));
    case v1::DTYPE_F64:
      return AppendValue(to, value);
    case v1::DTYPE_I32:
      return AppendValue(to, static_cast<int32_t>(value * 1000));
    case v1::DTYPE_I64:
      return AppendValue(to, static_cast<int64_t>(value * 1000));
    default:
      return AppendValue(to, static_cast<uint8_t>(std::fmod(std::fabs(value) * 1000, 2)));
  }
}

// With a manual executor a callback that is due has been called after RunAll.
template <typename Result>
class Answer {
 public:
  auto Done() {
    return [this](absl::StatusOr<Result> result) { result_ = std::move(result); };
  }
  absl::StatusOr<Result> Take(ManualExecutor& executor) {
    executor.RunAll();
    if (!result_.has_value()) return absl::DeadlineExceededError("not answered");
    return *std::move(result_);
  }

 private:
  std::optional<absl::StatusOr<Result>> result_;
};

v1::Variable Make(const std::string& name, v1::DType dtype, std::vector<uint64_t> shape,
                  uint32_t group, v1::Aggregation aggregation = v1::AGGREGATION_UNSPECIFIED) {
  v1::Variable variable;
  variable.set_name(name);
  variable.set_dtype(dtype);
  variable.mutable_shape()->Add(shape.begin(), shape.end());
  variable.set_group(group);
  variable.set_aggregation(aggregation);
  return variable;
}

}  // namespace

v1::Declaration EveryKindOfVariable(const v1::Optimizer& optimizer) {
  v1::Declaration declaration;
  v1::OptimizerGroup& group = *declaration.add_groups();
  group.set_name("all");
  *group.mutable_optimizer() = optimizer;
  *declaration.add_variables() = Make("matrix", v1::DTYPE_F32, {100, 57}, 1);
  *declaration.add_variables() = Make("bias", v1::DTYPE_F32, {57}, 1);
  *declaration.add_variables() = Make("double", v1::DTYPE_F64, {700}, 1);
  *declaration.add_variables() = Make("nothing", v1::DTYPE_F32, {3, 0}, 1);
  *declaration.add_variables() = Make("scalar", v1::DTYPE_F32, {}, 1);
  *declaration.add_variables() = Make("mean", v1::DTYPE_F32, {1500}, 0);
  *declaration.add_variables() = Make("sum", v1::DTYPE_F64, {3}, 0, v1::AGGREGATION_SUM);
  *declaration.add_variables() = Make("count", v1::DTYPE_I64, {2}, 0);
  *declaration.add_variables() = Make("small", v1::DTYPE_I32, {5}, 0, v1::AGGREGATION_MIN);
  *declaration.add_variables() = Make("flags", v1::DTYPE_BOOL, {9}, 0);
  return declaration;
}

CoreJob::CoreJob(Options options) : options_(std::move(options)) {
  view_.set_run_id(kRun);
  view_.set_name("job");
  view_.set_attempt(options_.attempt);
  view_.set_generation(1);
  view_.mutable_spec()->set_name("job");
  view_.mutable_spec()->set_workers(1);
  view_.mutable_spec()->mutable_regime()->set_kind(options_.regime);
  *view_.mutable_declaration() = options_.declaration;
  v1::Member& member = *view_.add_members();
  member.set_worker(kWorker);
  member.set_first_step(options_.resume.step());
  view_.set_initialiser(kWorker);
  *view_.mutable_resume() = options_.resume;

  std::vector<VariableExtent> extents;
  for (const v1::Variable& variable : options_.declaration.variables()) {
    extents.push_back({ElementsOf(variable), BytesOf(variable.dtype())});
  }
  layout_ = std::make_unique<Layout>(extents, options_.shard_bytes, options_.chunk_bytes);
  v1::ShardMap& map = *view_.mutable_shard_map();
  map.set_version(1);
  map.set_shard_bytes(layout_->shard_bytes());
  map.set_chunk_bytes(layout_->chunk_bytes());
  for (const uint32_t server :
       PlaceShards(layout_->shards(), static_cast<uint32_t>(options_.servers))) {
    map.add_server_of_shard(server);
  }
  for (int i = 0; i < options_.servers; ++i) {
    v1::ServerInfo& info = *map.add_servers();
    info.set_name(ServerName(i));
    info.set_address(ServerName(i));
    info.set_incarnation(100 * options_.attempt + static_cast<uint64_t>(i));
    ParameterServer::Options server;
    server.name = info.name();
    server.incarnation = info.incarnation();
    server.clock = options_.clock;
    server.executor = options_.executor;
    servers_.push_back(std::make_unique<ParameterServer>(server));
  }
}

absl::Status CoreJob::Enter(v1::JobState state) {
  view_.set_version(view_.version() + 1);
  view_.set_state(state);
  for (const auto& server : servers_) WEIR_RETURN_IF_ERROR(server->ApplyView(view_));
  return absl::OkStatus();
}

v1::RequestContext CoreJob::Context(int server) const {
  v1::RequestContext context;
  context.set_run_id(kRun);
  context.set_attempt(view_.attempt());
  context.set_generation(view_.generation());
  context.set_shard_map_version(view_.shard_map().version());
  context.set_worker(kWorker);
  context.set_server_incarnation(view_.shard_map().servers(server).incarnation());
  return context;
}

std::vector<const Shard*> CoreJob::ShardsOn(int server, uint32_t group) const {
  std::vector<const Shard*> shards;
  for (const Shard& shard : layout_->shards()) {
    const auto& variable = view_.declaration().variables(static_cast<int>(shard.variable));
    const uint32_t where = view_.shard_map().server_of_shard(static_cast<int>(shard.id));
    if (variable.group() == group && where == static_cast<uint32_t>(server)) {
      shards.push_back(&shard);
    }
  }
  return shards;
}

v1::DType CoreJob::DTypeOf(const Shard& shard) const {
  return view_.declaration().variables(static_cast<int>(shard.variable)).dtype();
}

std::string CoreJob::Values(const Shard& shard, double first, double step) const {
  std::string bytes;
  for (uint64_t i = 0; i < shard.elements; ++i) {
    AppendAs(DTypeOf(shard), first + step * static_cast<double>(shard.first_element + i), bytes);
  }
  return bytes;
}

template <typename Request>
void CoreJob::AddSegments(const std::vector<const Shard*>& shards, Request& request) const {
  for (const Shard* shard : shards) {
    v1::Segment& segment = *request.add_segments();
    segment.set_shard(static_cast<uint64_t>(shard->id));
    segment.set_count(shard->elements);
  }
}

absl::Status CoreJob::Assign() {
  for (int i = 0; i < num_servers(); ++i) {
    v1::AssignRequest request;
    *request.mutable_context() = Context(i);
    std::vector<const Shard*> shards = ShardsOn(i, 0);
    for (const Shard* shard : ShardsOn(i, 1)) shards.push_back(shard);
    AddSegments(shards, request);
    std::string bytes;
    for (const Shard* shard : shards) bytes += Values(*shard, -0.3, 0.001);
    Payload payload;
    payload.Append(bytes.data(), bytes.size());
    Answer<v1::AssignReply> answer;
    server(i).Assign(request, std::move(payload), absl::InfiniteFuture(), answer.Done());
    WEIR_RETURN_IF_ERROR(answer.Take(*options_.executor).status());
  }
  return absl::OkStatus();
}

absl::Status CoreJob::Train(uint64_t step) {
  for (const uint32_t group : {0u, 1u}) {
    const uint64_t sequence = ++sequences_[group];
    for (int i = 0; i < num_servers(); ++i) {
      const std::vector<const Shard*> shards = ShardsOn(i, group);
      if (shards.empty()) continue;
      v1::PushRequest request;
      *request.mutable_context() = Context(i);
      request.set_group(group);
      request.set_sequence(sequence);
      request.set_step(step);
      request.set_group_step(step);
      request.set_weight(1);
      request.set_examples(group == 0 ? 0 : 32);
      AddSegments(shards, request);
      std::string bytes;
      const double first = 0.01 * static_cast<double>(step + 1);
      for (const Shard* shard : shards) bytes += Values(*shard, first, -1e-5);
      Payload payload;
      payload.Append(bytes.data(), bytes.size());
      Answer<v1::PushReply> answer;
      server(i).Push(request, std::move(payload), absl::InfiniteFuture(), answer.Done());
      WEIR_RETURN_IF_ERROR(answer.Take(*options_.executor).status());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, std::string>> CoreJob::Pull() {
  std::map<uint64_t, std::string>
      by_shard;  // so that a variable's shards are put together in order
  for (int i = 0; i < num_servers(); ++i) {
    for (const uint32_t group : {0u, 1u}) {
      for (const Shard* shard : ShardsOn(i, group)) {
        v1::PullRequest request;
        *request.mutable_context() = Context(i);
        AddSegments({shard}, request);
        Answer<PullResult> answer;
        server(i).Pull(request, absl::InfiniteFuture(), answer.Done());
        WEIR_ASSIGN_OR_RETURN(const PullResult result, answer.Take(*options_.executor));
        std::string& bytes = by_shard[static_cast<uint64_t>(shard->id)];
        for (const Payload::Slice& slice : result.payload.slices()) {
          bytes.append(reinterpret_cast<const char*>(slice.data), slice.size);
        }
        absl::StrAppend(&bytes, "@", result.header.segments(0).version());
      }
    }
  }
  std::map<std::string, std::string> variables;
  for (const auto& [shard, bytes] : by_shard) {
    const auto variable = static_cast<int>(layout_->shards()[shard].variable);
    variables[view_.declaration().variables(variable).name()] += bytes;
  }
  return variables;
}

absl::StatusOr<v1::SavePartRequest> CoreJob::PrepareCut(uint64_t cut, uint64_t step,
                                                        const std::string& id) {
  v1::SavePartRequest save;
  save.set_term(1);
  save.set_run_id(kRun);
  save.set_attempt(view_.attempt());
  save.set_cut(cut);
  save.set_checkpoint_id(id);
  save.set_directory(absl::StrCat("job/", id));
  for (const auto& [group, sequence] : sequences_) {
    if (options_.regime == v1::REGIME_SYNC) break;
    v1::CutMark& mark = *save.add_marks();
    mark.set_worker(kWorker);
    mark.set_group(group);
    mark.set_last_sequence(sequence);
  }
  for (const auto& server : servers_) {
    if (options_.regime != v1::REGIME_SYNC) break;
    v1::PrepareStepRequest prepare;
    prepare.set_run_id(kRun);
    prepare.set_attempt(view_.attempt());
    prepare.set_change_id(cut);
    prepare.set_step(step);
    WEIR_RETURN_IF_ERROR(server->PrepareStep(prepare).status());
    v1::CommitStepRequest commit;
    commit.set_run_id(kRun);
    commit.set_attempt(view_.attempt());
    commit.set_change_id(cut);
    commit.set_step(step);
    commit.set_cut(cut);
    WEIR_RETURN_IF_ERROR(server->CommitStep(commit));
  }
  return save;
}

}  // namespace weir
