// SPDX-License-Identifier: Apache-2.0
#include "coordinator/watch_stream.h"

#include <algorithm>
#include <utility>

#include "common/grpc_status.h"

namespace weir {

std::shared_ptr<WatchStream> WatchStream::Start(std::shared_ptr<Coordinator> coordinator,
                                                const v1::WatchRequest& request) {
  std::shared_ptr<WatchStream> stream(new WatchStream(std::move(coordinator)));
  stream->self_ = stream;
  absl::StatusOr<WatchId> watch = stream->coordinator_->Watch(
      request, [weak = std::weak_ptr<WatchStream>(stream)](SharedWatchEvent event) {
        if (const auto self = weak.lock()) self->Push(std::move(event));
      });
  if (watch.ok()) {
    MutexLock lock(stream->mutex_);
    stream->watch_ = *watch;
  } else {
    stream->End(ToGrpcStatus(watch.status()));
  }
  return stream;
}

SharedWatchEvent WatchStream::Next() {
  if (end_ || writing_ != nullptr || waiting_.empty()) return nullptr;
  writing_ = std::move(waiting_.front());
  waiting_.pop_front();
  return writing_;
}

void WatchStream::Push(SharedWatchEvent event) {
  SharedWatchEvent next;
  {
    MutexLock lock(mutex_);
    if (end_) return;
    const auto older = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& other) {
      return !other->snapshot() && other->view().run_id() == event->view().run_id();
    });
    if (older != waiting_.end() && !event->snapshot()) {
      *older = std::move(event);
    } else {
      waiting_.push_back(std::move(event));
    }
    next = Next();
  }
  if (next != nullptr) StartWrite(next.get());
}

void WatchStream::OnWriteDone(bool ok) {
  SharedWatchEvent next;
  absl::optional<grpc::Status> end;
  {
    MutexLock lock(mutex_);
    writing_.reset();
    if (!ok && !end_) end_ = grpc::Status(grpc::StatusCode::UNAVAILABLE, "the stream is broken");
    end = end_;
    next = Next();
  }
  if (end) {
    Finish(*end);
  } else if (next != nullptr) {
    StartWrite(next.get());
  }
}

void WatchStream::End(const grpc::Status& status) {
  {
    MutexLock lock(mutex_);
    if (end_) return;
    end_ = status;
    waiting_.clear();
    if (writing_ != nullptr) return;  // OnWriteDone ends the call: no write may follow the end
  }
  Finish(status);
}

void WatchStream::OnCancel() {
  End(grpc::Status(grpc::StatusCode::CANCELLED, "the watcher has gone"));
}

void WatchStream::OnDone() {
  const std::shared_ptr<WatchStream> self = std::move(self_);
  absl::optional<WatchId> watch;
  {
    MutexLock lock(mutex_);
    watch = watch_;
  }
  if (watch) coordinator_->Unwatch(*watch);
}

}  // namespace weir
