// SPDX-License-Identifier: Apache-2.0
#include "server/part_stream.h"

#include <string>

namespace weir {

absl::Status PartStream::Write(uint64_t chunk, absl::string_view record) {
  reply_.set_chunk(chunk);
  reply_.mutable_record()->assign(record.data(), record.size());
  {
    MutexLock lock(mutex_);
    writing_ = true;
  }
  StartWrite(&reply_);
  MutexLock lock(mutex_);
  while (writing_) written_.Wait(mutex_);
  return broken_ ? absl::CancelledError("the reader of the part is gone") : absl::OkStatus();
}

void PartStream::OnWriteDone(bool ok) {
  MutexLock lock(mutex_);
  writing_ = false;
  broken_ = !ok;
  written_.NotifyAll();
}

}  // namespace weir
