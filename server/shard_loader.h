// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/parameter_store.h"
#include "server/part_fetcher.h"
#include "server/part_transport.h"
#include "weir/v1/server_control.pb.h"

namespace weir {

// Loads the shards of one store from the parts of one checkpoint. Used from one thread.
class ShardLoader {
 public:
  // All must outlive the loader.
  struct Options {
    const v1::RestoreRequest* request = nullptr;
    PartFetcher* local = nullptr;
    PartTransport* peers = nullptr;
    std::string server;  // this server's name
    absl::Time deadline;
  };

  // Finds the part that holds each shard. Errors: DataLoss - a shard is in two parts, or a part
  // contradicts itself.
  static absl::StatusOr<ShardLoader> Create(const Options& options);

  // Every chunk of the shard, each checked. Errors: those of PartRestorer::Restore.
  absl::Status Load(ParameterStore& store, const LocalShard& shard);

 private:
  struct Source {
    int part = 0;
    std::string id;  // that its keys begin with
  };

  explicit ShardLoader(const Options& options) : options_(options) {}
  absl::Status Read(const Source& source, ShardId shard, PartReader::Consume consume);
  absl::Status ReadFromPeer(const Source& source, ShardId shard, PartReader::Consume consume);

  Options options_;
  absl::flat_hash_map<uint64_t, Source> sources_;  // by shard
};

}  // namespace weir
