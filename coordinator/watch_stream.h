// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>

#include <deque>
#include <memory>

#include "absl/types/optional.h"
#include "common/mutex.h"
#include "coordinator/coordinator.h"
#include "weir/v1/coordinator.grpc.pb.h"

namespace weir {

// One Watch call. A slow reader misses views that a newer one of the same run replaces, and so
// costs a bounded amount of memory. Owns itself until gRPC is done with it. Thread-safe.
class WatchStream final : public grpc::ServerWriteReactor<v1::WatchEvent>,
                          public std::enable_shared_from_this<WatchStream> {
 public:
  // Returns the started stream. `coordinator` outlives it by sharing.
  static std::shared_ptr<WatchStream> Start(std::shared_ptr<Coordinator> coordinator,
                                            const v1::WatchRequest& request);

  // Ends the call, once; later calls change nothing.
  void End(const grpc::Status& status);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  explicit WatchStream(std::shared_ptr<Coordinator> coordinator)
      : coordinator_(std::move(coordinator)) {}
  void Push(SharedWatchEvent event);
  // The next event to write, if one may be written now.
  SharedWatchEvent Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<Coordinator> coordinator_;
  std::shared_ptr<WatchStream> self_;  // until OnDone
  Mutex mutex_;
  absl::optional<WatchId> watch_ ABSL_GUARDED_BY(mutex_);
  std::deque<SharedWatchEvent> waiting_ ABSL_GUARDED_BY(mutex_);
  SharedWatchEvent writing_ ABSL_GUARDED_BY(mutex_);
  absl::optional<grpc::Status> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
