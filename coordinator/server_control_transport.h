// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "weir/v1/server_control.pb.h"
#include "weir/v1/view.pb.h"

namespace weir {

// The coordinator's way to its servers: ServerControl, as server_control.proto defines it.
// Implementations are thread-safe. `done` is called exactly once, by `timeout` (DEADLINE_EXCEEDED),
// on any thread but never before the call returns. Unavailable: the server does not answer at its
// address.
class ServerControlTransport {
 public:
  template <typename Reply>
  using Done = absl::AnyInvocable<void(absl::StatusOr<Reply>) &&>;

  virtual ~ServerControlTransport() = default;
  virtual void PrepareStep(const v1::ServerInfo& server, const v1::PrepareStepRequest& request,
                           absl::Duration timeout, Done<v1::PrepareStepReply> done) = 0;
  virtual void CommitStep(const v1::ServerInfo& server, const v1::CommitStepRequest& request,
                          absl::Duration timeout, Done<v1::CommitStepReply> done) = 0;
  virtual void AbortStep(const v1::ServerInfo& server, const v1::AbortStepRequest& request,
                         absl::Duration timeout, Done<v1::AbortStepReply> done) = 0;
  virtual void SavePart(const v1::ServerInfo& server, const v1::SavePartRequest& request,
                        absl::Duration timeout, Done<v1::SavePartReply> done) = 0;
  virtual void Restore(const v1::ServerInfo& server, const v1::RestoreRequest& request,
                       absl::Duration timeout, Done<v1::RestoreReply> done) = 0;
  virtual void DropPart(const v1::ServerInfo& server, const v1::DropPartRequest& request,
                        absl::Duration timeout, Done<v1::DropPartReply> done) = 0;
};

}  // namespace weir
