// SPDX-License-Identifier: Apache-2.0
// A server, a job that the test makes by hand, and the workers that it plays.
#pragma once

#include "tests/unit/server/server_fixture.h"

namespace weir {

inline constexpr uint64_t kAnn = 0xa;
inline constexpr uint64_t kBob = 0xb;
inline constexpr uint64_t kCid = 0xc;

class WorkersFixture : public ServerFixture {
 protected:
  // A push of all of variable 0; the first sequence of one that joined at `first_step` is of that.
  static v1::PushRequest Whole(const RequestMaker& maker, uint64_t step, double weight = 1,
                               uint64_t first_step = 0) {
    v1::PushRequest request = maker.Push(maker.SegmentsOf(0), step - first_step + 1);
    request.set_step(step);
    request.set_group_step(step);
    request.set_weight(weight);
    return request;
  }
  void Remove(uint64_t worker) {
    WEIR_ASSERT_OK(server->ApplyView(view.RemoveMember(worker).NextGeneration().Make()));
  }
  // The coordinator's, of a change of a step.
  template <typename Request>
  Request OfChange(uint64_t change) const {
    Request request;
    request.set_term(1);
    request.set_run_id(view.view().run_id());
    request.set_attempt(1);
    request.set_change_id(change);
    return request;
  }
  v1::PrepareStepRequest PrepareRequest(uint64_t change, uint64_t step) const {
    auto request = OfChange<v1::PrepareStepRequest>(change);
    request.set_step(step);
    return request;
  }
  v1::CommitStepRequest CommitRequest(uint64_t change, uint64_t step) const {
    auto request = OfChange<v1::CommitStepRequest>(change);
    request.set_step(step);
    return request;
  }

  ViewMaker view;
  RequestMaker ann{view, kAnn};
  RequestMaker bob{view, kBob};
  RequestMaker cid{view, kCid};
};

}  // namespace weir
