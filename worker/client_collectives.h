// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "weir/parameter_client.h"
#include "worker/collectives.h"

namespace weir {

// Collectives between the processes of a `sync` job, over the servers. Borrows client and clock.
// Thread-compatible.
class ClientCollectives final : public ProcessCollectives {
 public:
  struct Options {
    uint32_t rank = 0;
    uint32_t replicas = 1;  // of each process
    absl::Duration timeout = absl::Minutes(10);
  };

  ClientCollectives(ParameterClient& client, const Clock& clock, const Options& options)
      : client_(client), clock_(clock), options_(options) {}

  absl::StatusOr<std::vector<Present>> CallRoll(const CollectivePlace& place,
                                                bool newcomer) override;
  absl::Status Run(const CollectiveCall& call, const CollectivePlace& place,
                   absl::Span<const std::byte> data, std::vector<std::byte>& result) override;

  // In collectives, since it was asked last.
  absl::Duration TakeWaited() { return std::exchange(waited_, absl::ZeroDuration()); }

 private:
  ReduceOptions OptionsAt(const CollectivePlace& place) const;
  absl::Status Reduce(absl::Span<const std::byte> data, const ReduceOptions& options,
                      std::vector<std::byte>& result);

  ParameterClient& client_;
  const Clock& clock_;
  absl::Duration waited_;
  const Options options_;
};

}  // namespace weir
