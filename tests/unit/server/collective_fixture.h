// SPDX-License-Identifier: Apache-2.0
// Three members of a sync job who call collectives on one server.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/unit/server/workers_fixture.h"

namespace weir {

class CollectiveFixture : public WorkersFixture {
 protected:
  // A call that the test changes where it wants it otherwise.
  struct Call {
    v1::ReduceOp op = v1::REDUCE_OP_SUM;
    std::string name = "loss";
    uint64_t step = 0;
    uint32_t ordinal = 0;
    uint64_t step_generation = 1;
    double weight = 1;
    uint32_t replicas = 1;
    uint32_t source = 0;
    std::vector<uint64_t> shape{};  // empty: as many elements as values, in one extent
    uint64_t piece = 0;
    uint64_t first = 0;
    uint64_t pieces_done = 0;
  };

  // Ranks 0, 1 and 2.
  void SetUp() override { StartSync({kAnn, kBob, kCid}); }

  void StartSync(const std::vector<uint64_t>& members, uint64_t memory_limit_bytes = 0) {
    view = ViewMaker();
    view.Sync().AddVariable("w", 4);
    for (const uint64_t member : members) view.AddMember(member);
    MakeServer(memory_limit_bytes);
    StartJob(view);
  }

  template <typename T>
  static v1::DType DTypeOf();

  template <typename T>
  v1::ReduceRequest Request(uint64_t worker, const std::vector<T>& values, const Call& call) {
    v1::ReduceRequest request;
    *request.mutable_context() = RequestMaker(view, worker).Context();
    request.set_sequence(++sequences_[worker]);
    request.set_step(call.step);
    request.set_ordinal(call.ordinal);
    request.set_step_generation(call.step_generation);
    request.set_weight(call.weight);
    request.set_piece(call.piece);
    request.set_first_element(call.first);
    request.set_pieces_done(call.pieces_done);
    v1::Collective& collective = *request.mutable_collective();
    collective.set_name(call.name);
    collective.set_op(call.op);
    collective.set_dtype(DTypeOf<T>());
    collective.set_replicas(call.replicas);
    collective.set_source(call.source);
    const uint64_t blocks = call.op == v1::REDUCE_OP_GATHER ? call.replicas : 1;
    request.set_count(values.size() / blocks);
    if (call.shape.empty()) collective.add_shape(values.size() / blocks);
    for (const uint64_t extent : call.shape) collective.add_shape(extent);
    return request;
  }
  template <typename T>
  Answer<ReduceResult> Send(const v1::ReduceRequest& request, const std::vector<T>& values) {
    Answer<ReduceResult> answer;
    server->Reduce(request, values.empty() ? Payload() : PayloadOf(values), Soon(),
                   answer.Callback());
    return answer;
  }
  template <typename T = float>
  Answer<ReduceResult> Reduce(uint64_t worker, const std::vector<T>& values, const Call& call) {
    return Send(Request(worker, values, call), values);
  }
  template <typename T = float>
  Answer<ReduceResult> Reduce(uint64_t worker, const std::vector<T>& values) {
    return Reduce(worker, values, Call{});
  }

  template <typename T = float>
  static std::vector<T> Got(const Answer<ReduceResult>& answer) {
    EXPECT_THAT(answer.get(), IsOk());
    return answer.get().ok() ? ValuesOf<T>(answer.get()->payload) : std::vector<T>();
  }

 private:
  std::map<uint64_t, uint64_t> sequences_;
};

template <>
inline v1::DType CollectiveFixture::DTypeOf<float>() {
  return v1::DTYPE_F32;
}
template <>
inline v1::DType CollectiveFixture::DTypeOf<double>() {
  return v1::DTYPE_F64;
}
template <>
inline v1::DType CollectiveFixture::DTypeOf<int32_t>() {
  return v1::DTYPE_I32;
}
template <>
inline v1::DType CollectiveFixture::DTypeOf<int64_t>() {
  return v1::DTYPE_I64;
}
template <>
inline v1::DType CollectiveFixture::DTypeOf<uint8_t>() {
  return v1::DTYPE_BOOL;
}

}  // namespace weir
