// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/executor.h"
#include "common/mutex.h"
#include "coordinator/server_control_transport.h"
#include "coordinator/state_store.h"

namespace weir {

// State in memory. Thread-safe.
class MemoryStateStore final : public StateStore {
 public:
  absl::StatusOr<std::map<std::string, std::string>> Load() override {
    MutexLock lock(mutex_);
    return kept_;
  }
  absl::Status Write(const StateChanges& changes) override {
    MutexLock lock(mutex_);
    if (!failure_.ok()) return failure_;
    ++writes_;
    for (const auto& [key, value] : changes) {
      if (value) {
        kept_[key] = *value;
      } else {
        kept_.erase(key);
      }
    }
    return absl::OkStatus();
  }
  void FailWith(absl::Status failure) {
    MutexLock lock(mutex_);
    failure_ = std::move(failure);
  }
  int writes() const {
    MutexLock lock(mutex_);
    return writes_;
  }

 private:
  mutable Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  int writes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::string> kept_ ABSL_GUARDED_BY(mutex_);
};

// Servers that answer by these functions, each call in a task of its own, and remember what they
// were asked. Used from the test's thread.
class FakeServers final : public ServerControlTransport {
 public:
  template <typename Request, typename Reply>
  struct Method {
    std::function<absl::StatusOr<Reply>(const v1::ServerInfo&, const Request&)> answer;
    std::vector<std::pair<std::string, Request>> calls;  // with the server's name
  };

  explicit FakeServers(Executor& executor) : executor_(executor) {
    prepare.answer = [](const auto&, const auto&) { return v1::PrepareStepReply(); };
    commit.answer = [](const auto&, const auto&) { return v1::CommitStepReply(); };
    abort.answer = [](const auto&, const auto&) { return v1::AbortStepReply(); };
    restore.answer = [](const auto&, const auto&) { return v1::RestoreReply(); };
    drop.answer = [](const auto&, const auto&) { return v1::DropPartReply(); };
    save.answer = [this](const v1::ServerInfo& server, const v1::SavePartRequest& request) {
      return PartOf(server, request);
    };
  }

  // What SavePart answers by default: shards as in `shard_map`, step and examples as set below.
  absl::StatusOr<v1::SavePartReply> PartOf(const v1::ServerInfo& server,
                                           const v1::SavePartRequest& request) const {
    v1::SavePartReply reply;
    v1::CheckpointPart& part = *reply.mutable_part();
    part.set_server(server.name());
    part.set_directory(absl::StrCat("/data/", server.name(), "/", request.directory()));
    part.add_files()->set_name("CURRENT");
    part.set_cut(request.cut());
    part.set_attempt(request.attempt());
    part.set_step(saved_step);
    part.set_examples(saved_examples);
    for (int shard = 0; shard < shard_map.server_of_shard_size(); ++shard) {
      if (shard_map.servers(shard_map.server_of_shard(shard)).name() == server.name()) {
        part.add_shards(shard);
      }
    }
    return reply;
  }

  void PrepareStep(const v1::ServerInfo& server, const v1::PrepareStepRequest& request,
                   absl::Duration, Done<v1::PrepareStepReply> done) override {
    Call(prepare, server, request, std::move(done));
  }
  void CommitStep(const v1::ServerInfo& server, const v1::CommitStepRequest& request,
                  absl::Duration, Done<v1::CommitStepReply> done) override {
    Call(commit, server, request, std::move(done));
  }
  void AbortStep(const v1::ServerInfo& server, const v1::AbortStepRequest& request, absl::Duration,
                 Done<v1::AbortStepReply> done) override {
    Call(abort, server, request, std::move(done));
  }
  void SavePart(const v1::ServerInfo& server, const v1::SavePartRequest& request, absl::Duration,
                Done<v1::SavePartReply> done) override {
    Call(save, server, request, std::move(done));
  }
  void Restore(const v1::ServerInfo& server, const v1::RestoreRequest& request, absl::Duration,
               Done<v1::RestoreReply> done) override {
    Call(restore, server, request, std::move(done));
  }
  void DropPart(const v1::ServerInfo& server, const v1::DropPartRequest& request, absl::Duration,
                Done<v1::DropPartReply> done) override {
    Call(drop, server, request, std::move(done));
  }

  Method<v1::PrepareStepRequest, v1::PrepareStepReply> prepare;
  Method<v1::CommitStepRequest, v1::CommitStepReply> commit;
  Method<v1::AbortStepRequest, v1::AbortStepReply> abort;
  Method<v1::SavePartRequest, v1::SavePartReply> save;
  Method<v1::RestoreRequest, v1::RestoreReply> restore;
  Method<v1::DropPartRequest, v1::DropPartReply> drop;
  v1::ShardMap shard_map;
  uint64_t saved_step = 0;
  uint64_t saved_examples = 0;

 private:
  template <typename Request, typename Reply>
  void Call(Method<Request, Reply>& method, const v1::ServerInfo& server, const Request& request,
            Done<Reply> done) {
    method.calls.emplace_back(server.name(), request);
    executor_.Run([&method, server, request, done = std::move(done)]() mutable {
      std::move(done)(method.answer(server, request));
    });
  }

  Executor& executor_;
};

}  // namespace weir
