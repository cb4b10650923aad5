// SPDX-License-Identifier: Apache-2.0
#include "coordinator/part_dropper.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

constexpr absl::Duration kDropTimeout = absl::Seconds(30);

}  // namespace

void PartDropper::Add(const v1::Manifest& manifest) {
  Remains remains{.job = manifest.job(), .id = manifest.id(), .servers = {}, .asked = {}};
  for (const v1::CheckpointPart& part : manifest.parts()) remains.servers.insert(part.server());
  if (remains.servers.empty()) {
    catalog_->Forget(remains.job, remains.id);
    return;
  }
  MutexLock lock(mutex_);
  remains_.emplace(absl::StrCat(remains.job, "/", remains.id), std::move(remains));
}

void PartDropper::Ask(const std::vector<v1::ServerInfo>& live, uint64_t term) {
  std::vector<std::pair<v1::ServerInfo, std::string>> calls;  // and the key, which is the folder
  {
    MutexLock lock(mutex_);
    for (auto& [key, remains] : remains_) {
      for (const v1::ServerInfo& server : live) {
        if (remains.servers.count(server.name()) == 0) continue;
        if (remains.asked.insert(server.name()).second) calls.emplace_back(server, key);
      }
    }
  }
  for (const auto& [server, key] : calls) {
    v1::DropPartRequest request;
    request.set_term(term);
    request.set_directory(key);
    transport_.DropPart(server, request, kDropTimeout,
                        [self = shared_from_this(), key = key,
                         name = server.name()](absl::StatusOr<v1::DropPartReply> reply) {
                          self->OnDropped(key, name, reply.status());
                        });
  }
}

void PartDropper::OnDropped(const std::string& key, const std::string& server,
                            const absl::Status& status) {
  std::string job;
  std::string id;
  {
    MutexLock lock(mutex_);
    const auto found = remains_.find(key);
    if (found == remains_.end()) return;
    found->second.asked.erase(server);
    if (!status.ok() && !absl::IsNotFound(status)) return;
    found->second.servers.erase(server);
    if (!found->second.servers.empty()) return;
    job = found->second.job;
    id = found->second.id;
    remains_.erase(found);
  }
  catalog_->Forget(job, id);
}

}  // namespace weir
