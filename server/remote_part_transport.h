// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "server/part_transport.h"

namespace weir {

// FetchPart over gRPC. Thread-safe.
class RemotePartTransport final : public PartTransport {
 public:
  // `clock` must outlive the transport.
  explicit RemotePartTransport(const Clock& clock) : clock_(clock) {}

  absl::Status Fetch(const std::string& address, const v1::FetchPartRequest& request,
                     absl::Time deadline, PartReader::Consume consume) override;

 private:
  absl::StatusOr<std::shared_ptr<grpc::Channel>> ChannelTo(const std::string& address);

  const Clock& clock_;
  Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<grpc::Channel>> channels_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
