// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "checkpoint/part_reader.h"
#include "weir/v1/server_control.pb.h"

namespace weir {

// How a server reads parts of checkpoints that lie with another server. Thread-safe.
class PartTransport {
 public:
  virtual ~PartTransport() = default;

  // FetchPart of the server at `address`: calls `consume` for each record, on the caller's thread,
  // and returns when all have come. An error of `consume` ends it. Errors: those of the server;
  // Unavailable, DeadlineExceeded (of Clock::Now) - no answer.
  virtual absl::Status Fetch(const std::string& address, const v1::FetchPartRequest& request,
                             absl::Time deadline, PartReader::Consume consume) = 0;
};

}  // namespace weir
