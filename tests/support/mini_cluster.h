// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace weir {

// A coordinator and servers as threads of this process, on loopback, talking gRPC, with data
// folders below `folder`. What the daemons do but their flags and signals. Used from the thread of
// the test.
class MiniCluster {
 public:
  struct Options {
    std::string folder;
    int servers = 2;
    absl::Duration lease = absl::Seconds(2);
    absl::Duration heartbeat = absl::Milliseconds(100);
  };

  // Serves when this returns.
  static absl::StatusOr<std::unique_ptr<MiniCluster>> Start(Options options);
  ~MiniCluster();

  std::string coordinator() const;
  // The server ends without a word, and comes back at another port with nothing in memory.
  absl::Status RestartServer(int index);
  // The coordinator ends without a word, and comes back at its address with what it kept.
  absl::Status RestartCoordinator();

 private:
  class CoordinatorPart;
  class ServerPart;
  explicit MiniCluster(Options options);
  absl::Status StartServer(int index);

  const Options options_;
  std::string listen_ = "127.0.0.1:0";  // of the coordinator; fixed by its first start
  std::unique_ptr<CoordinatorPart> coordinator_;
  std::vector<std::unique_ptr<ServerPart>> servers_;
};

}  // namespace weir
