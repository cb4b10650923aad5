// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/payload.h"
#include "weir/v1/parameter_server.pb.h"

namespace weir {

// Headers are the protobuf messages with `payload` left empty; the bytes travel beside them.
struct PullResult {
  v1::PullReply header;
  Payload payload;
};

struct ReduceResult {
  v1::ReduceReply header;
  Payload payload;
};

// One server's data plane, as ParameterService defines it (semantics and statuses:
// parameter_server.proto). Implemented by the server's core and, over gRPC, by the client's
// RemoteEndpoint: so a worker in the same process talks to the core itself. Thread-safe.
//
// `done` is called exactly once, on any thread, perhaps before the call returns. A parked reply
// ends by `deadline` (of Clock::Now) with DEADLINE_EXCEEDED that names who was waited for.
class ParameterEndpoint {
 public:
  using HelloDone = absl::AnyInvocable<void(absl::StatusOr<v1::HelloReply>) &&>;
  using PullDone = absl::AnyInvocable<void(absl::StatusOr<PullResult>) &&>;
  using PushDone = absl::AnyInvocable<void(absl::StatusOr<v1::PushReply>) &&>;
  using AssignDone = absl::AnyInvocable<void(absl::StatusOr<v1::AssignReply>) &&>;
  using ReduceDone = absl::AnyInvocable<void(absl::StatusOr<ReduceResult>) &&>;

  virtual ~ParameterEndpoint() = default;
  virtual void Hello(const v1::HelloRequest& request, absl::Time deadline, HelloDone done) = 0;
  virtual void Pull(const v1::PullRequest& request, absl::Time deadline, PullDone done) = 0;
  virtual void Push(const v1::PushRequest& request, Payload payload, absl::Time deadline,
                    PushDone done) = 0;
  virtual void PushPull(const v1::PushRequest& request, Payload payload, absl::Time deadline,
                        PullDone done) = 0;
  virtual void Assign(const v1::AssignRequest& request, Payload payload, absl::Time deadline,
                      AssignDone done) = 0;
  virtual void Reduce(const v1::ReduceRequest& request, Payload payload, absl::Time deadline,
                      ReduceDone done) = 0;
};

}  // namespace weir
