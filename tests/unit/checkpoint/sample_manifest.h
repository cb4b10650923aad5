// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "weir/v1/coordinator.pb.h"

namespace weir {

// Of job "job": two parts, s0 with shards 0 and 1, s1 with shards 2 and 3.
inline v1::Manifest SampleManifest(const std::string& id) {
  v1::Manifest manifest;
  manifest.set_format(1);
  manifest.set_id(id);
  manifest.set_job("job");
  manifest.set_run_id(0xfedcba9876543210);
  manifest.set_step(41);
  manifest.set_cut(7);
  for (const uint32_t server : {0, 0, 1, 1}) {
    manifest.mutable_shard_map()->add_server_of_shard(server);
  }
  for (uint32_t server = 0; server < 2; ++server) {
    v1::CheckpointPart& part = *manifest.add_parts();
    part.set_server(absl::StrCat("s", server));
    part.set_directory(absl::StrCat("/data/s", server, "/job/", id));
    part.set_cut(7);
    part.add_ids(id);
    part.add_shards(2 * server);
    part.add_shards(2 * server + 1);
    v1::PartFile& file = *part.add_files();
    file.set_name("000007.sst");
    file.set_size(1234);
    file.set_xxh3(0x123456789abcdef0 + server);
  }
  return manifest;
}

}  // namespace weir
