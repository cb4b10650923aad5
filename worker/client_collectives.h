// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "weir/parameter_client.h"
#include "worker/collectives.h"

namespace weir {

// Collectives between the processes of a `sync` job, over the servers. Borrows the client. Used by
// one thread at a time.
class ClientCollectives final : public ProcessCollectives {
 public:
  struct Options {
    uint32_t rank = 0;
    uint32_t replicas = 1;  // of each process
    absl::Duration timeout = absl::Minutes(10);
  };

  ClientCollectives(ParameterClient& client, const Options& options)
      : client_(client), options_(options) {}

  absl::StatusOr<std::vector<Present>> CallRoll(const CollectivePlace& place,
                                                bool newcomer) override;
  absl::Status Run(const CollectiveCall& call, const CollectivePlace& place,
                   absl::Span<const std::byte> data, std::vector<std::byte>& result) override;

 private:
  ReduceOptions OptionsAt(const CollectivePlace& place) const;

  ParameterClient& client_;
  const Options options_;
};

}  // namespace weir
