// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/server_callback.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "weir/v1/server_control.pb.h"

namespace weir {

// The reply of one FetchPart call, written from a thread that may wait, one record at a time: a
// slow reader slows the disk down instead of filling memory, and one that has stopped to read is
// cut off. Deletes itself when gRPC is done with it; its user calls Finish last, once. Used
// from one thread, but for what gRPC calls.
class PartStream final : public grpc::ServerWriteReactor<v1::FetchPartReply> {
 public:
  // `patience`: for how long a record may wait to be taken. Borrows all of the call.
  PartStream(grpc::CallbackServerContext* context, const Clock& clock, absl::Duration patience)
      : context_(context), clock_(clock), patience_(patience) {}

  // Returns when gRPC has taken the record. Cancelled: the caller is gone. DeadlineExceeded: it
  // has taken nothing for too long, and is told Cancelled.
  absl::Status Write(uint64_t chunk, absl::string_view record);

  void OnWriteDone(bool ok) override;
  void OnDone() override { delete this; }

 private:
  ~PartStream() override = default;
  // False: the time ran out.
  bool WaitForWrite(absl::Duration timeout);

  grpc::CallbackServerContext* const context_;
  const Clock& clock_;
  const absl::Duration patience_;
  v1::FetchPartReply reply_;
  Mutex mutex_;
  CondVar written_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace weir
