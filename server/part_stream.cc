// SPDX-License-Identifier: Apache-2.0
#include "server/part_stream.h"

#include <grpcpp/server_context.h>

#include "absl/strings/str_cat.h"

namespace weir {

absl::Status PartStream::Write(uint64_t chunk, absl::string_view record) {
  reply_.set_chunk(chunk);
  reply_.mutable_record()->assign(record.data(), record.size());
  {
    MutexLock lock(mutex_);
    writing_ = true;
  }
  StartWrite(&reply_);
  const bool late = !WaitForWrite(patience_);
  if (late) {
    context_->TryCancel();
    WaitForWrite(absl::InfiniteDuration());  // gRPC ends the write, whose record is ours
  }
  MutexLock lock(mutex_);
  if (late) {
    return absl::DeadlineExceededError(absl::StrCat("the reader of the part has taken nothing for ",
                                                    absl::FormatDuration(patience_)));
  }
  return broken_ ? absl::CancelledError("the reader of the part is gone") : absl::OkStatus();
}

bool PartStream::WaitForWrite(absl::Duration timeout) {
  const absl::Time deadline = clock_.Now() + timeout;
  MutexLock lock(mutex_);
  while (writing_ && clock_.Now() < deadline) written_.WaitFor(mutex_, deadline - clock_.Now());
  return !writing_;
}

void PartStream::OnWriteDone(bool ok) {
  MutexLock lock(mutex_);
  writing_ = false;
  broken_ = !ok;
  written_.NotifyAll();
}

}  // namespace weir
