// SPDX-License-Identifier: Apache-2.0
// Whatever members and strangers send to a server, in whatever order, with views, changes at a step
// and cuts in between: every call is answered once, with a status that the protocol has; no chunk
// is torn; in `async` a chunk's weights are the sum of what has been applied; and a job that has
// ended leaves no memory behind.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/unit/server/server_fixture.h"

namespace weir {
namespace {

constexpr uint64_t kAnn = 0xa;
constexpr uint64_t kBob = 0xb;
constexpr int kMostOperations = 64;

void Require(bool claim, const char* what) {
  if (claim) return;
  std::fprintf(stderr, "broken claim: %s\n", what);
  std::abort();
}

// A running job of two workers and small variables on one server, and what the input does to it.
class Storm {
 public:
  explicit Storm(FuzzedDataProvider& input) : input_(input) {
    sync_ = input_.ConsumeBool();
    if (sync_) view_.Sync();
    if (input_.ConsumeBool()) view_.Deterministic();
    view_.AddGroup("second");
    view_.AddVariable("w", 100).AddVariable("v", 20, 2).AddVariable("flags", 8, 0, v1::DTYPE_BOOL);
    view_.AddVariable("wide", 10, 1, v1::DTYPE_F64).AddMember(kAnn).AddMember(kBob);
    shards_ = view_.MakeLayout().shards().size();
    Require(server_.ApplyView(view_.Make()).ok(), "the view is in order");
    Initialise();
    view_.edit().set_state(v1::JOB_STATE_RUNNING);
    Require(server_.ApplyView(view_.NextVersion().Make()).ok(), "so is the next one");
  }

  void Run() {
    for (int i = 0; i < kMostOperations && input_.remaining_bytes() > 0; ++i) Operate();
    // Beyond every deadline.
    executor_.Advance(absl::Minutes(2));
    CheckWeights();
    view_.edit().set_state(v1::JOB_STATE_FINISHED);
    Require(server_.ApplyView(view_.NextVersion().Make()).ok(), "a job may end");
    executor_.Advance(absl::Minutes(2));
    Require(answered_ == started_, "every call is answered");
    Require(server_.memory_bytes() == 0, "an ended job has no memory");
  }

 private:
  absl::Time Soon() { return clock_.Now() + absl::Seconds(input_.ConsumeIntegralInRange(0, 60)); }

  template <typename Reply>
  auto Done() {
    ++started_;
    return [this, answers = 0](const absl::StatusOr<Reply>& reply) mutable {
      Require(++answers == 1, "a call is answered once");
      ++answered_;
      CheckStatus(reply.status());
    };
  }

  static void CheckStatus(const absl::Status& status) {
    switch (status.code()) {
      case absl::StatusCode::kUnknown:
      case absl::StatusCode::kInternal:
      case absl::StatusCode::kDataLoss:
      case absl::StatusCode::kOutOfRange:
      case absl::StatusCode::kAlreadyExists:
        std::fprintf(stderr, "%s\n", status.ToString().c_str());
        Require(false, "a status is one that the protocol has");
        return;
      default:
        return;
    }
  }

  void Initialise() {
    const RequestMaker maker(view_, kAnn);
    for (uint64_t v = 0; v < 4; ++v) {
      const v1::Variable& variable = view_.view().declaration().variables(static_cast<int>(v));
      const std::vector<uint8_t> zeros(variable.shape(0) * ElementBytes(variable.dtype()));
      server_.Assign(maker.Assign(maker.SegmentsOf(v)), PayloadOf(zeros), Soon(),
                     Done<v1::AssignReply>());
    }
  }

  void Operate() {
    switch (input_.ConsumeIntegralInRange(0, 12)) {
      case 0:
      case 1:
      case 2:
        return Push(/*and_pull=*/false);
      case 3:
      case 4:
      case 5:
        return Push(/*and_pull=*/true);
      case 6:
        return Pull();
      case 7:
        return Assign();
      case 8:
        return executor_.Advance(absl::Milliseconds(input_.ConsumeIntegralInRange(0, 5000)));
      case 9:
        return ChangeMembers();
      case 10:
        return ChangeAtAStep();
      case 11:
        return TakeCut();
      default:
        return PushAnyBytes();
    }
  }

  uint64_t Worker() { return input_.PickValueInArray<uint64_t>({kAnn, kBob, kAnn, kBob, 0, 0xc}); }
  // Mostly small, as counts of steps are.
  uint64_t Number() {
    return input_.ConsumeIntegralInRange(0, 15) > 0 ? input_.ConsumeIntegralInRange<uint64_t>(0, 6)
                                                    : input_.ConsumeIntegral<uint64_t>();
  }

  v1::Segment Segment() {
    v1::Segment segment;
    const Layout layout = view_.MakeLayout();
    const Shard& shard = layout.shards()[input_.ConsumeIntegralInRange<size_t>(0, shards_ - 1)];
    segment.set_shard(static_cast<uint64_t>(shard.id));
    if (input_.ConsumeBool()) {
      segment.set_count(shard.elements);
    } else {
      const uint64_t chunk = input_.ConsumeIntegralInRange<uint64_t>(0, shard.num_chunks() - 1);
      segment.set_first_element(chunk * shard.chunk_elements);
      segment.set_count(std::min(shard.chunk_elements, shard.elements - segment.first_element()));
    }
    segment.set_absent(input_.ConsumeIntegralInRange(0, 3) == 0);
    segment.set_have_version(input_.ConsumeIntegralInRange<uint64_t>(0, 2));
    if (input_.ConsumeIntegralInRange(0, 31) == 0) segment.set_count(Number());
    return segment;
  }
  std::vector<v1::Segment> Segments() {
    std::vector<v1::Segment> segments(input_.ConsumeIntegralInRange<size_t>(0, 3));
    for (v1::Segment& segment : segments) segment = Segment();
    return segments;
  }

  // Ones, as each variable writes them.
  Payload Ones(const google::protobuf::RepeatedPtrField<v1::Segment>& segments) {
    std::vector<uint8_t> bytes;
    const Layout layout = view_.MakeLayout();
    for (const v1::Segment& segment : segments) {
      if (segment.absent() || segment.shard() >= shards_ || segment.count() > 1000) continue;
      const Shard& shard = layout.shards()[segment.shard()];
      for (uint64_t i = 0; i < segment.count(); ++i) {
        const double wide = 1;
        const float narrow = 1;
        const auto* from = shard.element_bytes == 8   ? reinterpret_cast<const uint8_t*>(&wide)
                           : shard.element_bytes == 4 ? reinterpret_cast<const uint8_t*>(&narrow)
                                                      : reinterpret_cast<const uint8_t*>("\1");
        bytes.insert(bytes.end(), from, from + shard.element_bytes);
      }
    }
    if (input_.ConsumeIntegralInRange(0, 31) == 0) bytes.push_back(1);
    return PayloadOf(bytes);
  }

  void Send(const v1::PushRequest& request, Payload payload, bool and_pull) {
    if (and_pull) {
      server_.PushPull(request, std::move(payload), Soon(), Done<PullResult>());
    } else {
      server_.Push(request, std::move(payload), Soon(), Done<v1::PushReply>());
    }
  }

  void Push(bool and_pull) {
    const RequestMaker maker(view_, Worker());
    const uint32_t group = input_.ConsumeIntegralInRange<uint32_t>(0, 3);
    v1::PushRequest request = maker.Push(Segments(), Number(), group);
    if (input_.ConsumeIntegralInRange(0, 7) == 0) request.set_step(Number());
    if (input_.ConsumeIntegralInRange(0, 7) == 0) request.set_group_step(Number());
    if (input_.ConsumeIntegralInRange(0, 7) == 0) request.set_cut(Number());
    if (input_.ConsumeIntegralInRange(0, 7) == 0) request.set_cut_sequence(Number());
    if (input_.ConsumeIntegralInRange(0, 15) == 0) request.set_weight(0);
    if (input_.ConsumeIntegralInRange(0, 31) == 0) {
      request.mutable_context()->set_generation(Number());
    }
    Send(request, Ones(request.segments()), and_pull);
  }

  // A header of any bytes, for this run, so that it does not end with the first check.
  void PushAnyBytes() {
    v1::PushRequest request;
    if (!request.ParseFromString(input_.ConsumeRandomLengthString(200))) return;
    *request.mutable_context() = RequestMaker(view_, Worker()).Context();
    request.clear_payload();
    plain_ = false;
    Send(request, Ones(request.segments()), input_.ConsumeBool());
  }

  void Pull() {
    const RequestMaker maker(view_, Worker());
    server_.Pull(maker.Pull(Segments(), Number()), Soon(), Done<PullResult>());
  }

  void Assign() {
    const RequestMaker maker(view_, Worker());
    const v1::AssignRequest request = maker.Assign(Segments());
    server_.Assign(request, Ones(request.segments()), Soon(), Done<v1::AssignReply>());
  }

  void ChangeMembers() {
    const bool bob_is_there = view_.view().members_size() > 1;
    if (bob_is_there) {
      view_.RemoveMember(kBob);
    } else {
      view_.AddMember(kBob, Number());
    }
    Require(server_.ApplyView(view_.NextGeneration().Make()).ok(), "members come and go");
  }

  void ChangeAtAStep() {
    const uint64_t id = input_.ConsumeIntegralInRange<uint64_t>(1, 3);
    const uint64_t step = Number();
    const auto fill = [&](auto& request) {
      request.set_term(1);
      request.set_run_id(kRun);
      request.set_attempt(1);
      request.set_change_id(id);
    };
    if (input_.ConsumeIntegralInRange(0, 4) == 0) {
      v1::AbortStepRequest abort;
      fill(abort);
      return CheckStatus(server_.AbortStep(abort));
    }
    v1::PrepareStepRequest prepare;
    fill(prepare);
    prepare.set_step(step);
    CheckStatus(server_.PrepareStep(prepare).status());
    if (input_.ConsumeBool()) return;
    v1::CommitStepRequest commit;
    fill(commit);
    commit.set_step(step);
    commit.set_cut(input_.ConsumeIntegralInRange<uint64_t>(0, 3));
    CheckStatus(server_.CommitStep(commit));
  }

  void TakeCut() {
    CutRequest request{.cut = input_.ConsumeIntegralInRange<uint64_t>(1, 3), .marks = {}};
    for (uint64_t worker : {kAnn, kBob}) {
      v1::CutMark& mark = request.marks.emplace_back();
      mark.set_worker(worker);
      mark.set_group(input_.ConsumeIntegralInRange<uint32_t>(0, 3));
      mark.set_last_sequence(Number());
    }
    const auto store = server_.Store(kRun);
    Require(store.ok(), "the job is there");
    (*store)->TakeCut(request, Soon(), Done<StoreSnapshot>());
  }

  // Chunk by chunk: a gradient of one and a rate of one take one off the weights each time.
  template <typename T>
  void CheckVariable(uint64_t variable) {
    const RequestMaker reader(view_, 0);
    const Layout layout = view_.MakeLayout();
    for (const Shard& shard : layout.ShardsOf(static_cast<VariableId>(variable))) {
      for (uint64_t first = 0; first < shard.elements; first += shard.chunk_elements) {
        const uint64_t count = std::min(shard.chunk_elements, shard.elements - first);
        const Answer<PullResult> answer;
        server_.Pull(reader.Pull(OneSegment(static_cast<uint64_t>(shard.id), first, count)),
                     absl::InfiniteFuture(), answer.Callback());
        Require(answer.has_come() && answer.get().ok(), "a reader gets the weights");
        const std::vector<T> values = ValuesOf<T>(answer.get()->payload);
        Require(
            std::all_of(values.begin(), values.end(), [&](T value) { return value == values[0]; }),
            "no chunk is torn");
        const auto version = static_cast<T>(answer.get()->header.segments(0).version());
        Require(sync_ || !plain_ || values[0] == -version, "each update counts once");
      }
    }
  }
  void CheckWeights() {
    CheckVariable<float>(0);
    CheckVariable<float>(1);
    CheckVariable<double>(3);
  }

  FuzzedDataProvider& input_;
  FakeClock clock_;
  ManualExecutor executor_{clock_};
  ViewMaker view_;
  ParameterServer server_{{.name = "weir-server-0",
                           .incarnation = kServer,
                           .credit_bytes = 1000,
                           .clock = &clock_,
                           .executor = &executor_}};
  size_t shards_ = 0;
  bool sync_ = false;
  bool plain_ = true;  // no push with a rate or values of its own
  int started_ = 0;
  int answered_ = 0;
};

}  // namespace
}  // namespace weir

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  weir::Storm(input).Run();
  return 0;
}
