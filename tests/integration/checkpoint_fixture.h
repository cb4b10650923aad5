// SPDX-License-Identifier: Apache-2.0
// Jobs that are saved on some servers and restored on others, over the servers' cores and real
// files.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "checkpoint/part_reader.h"
#include "common/status_macros.h"
#include "server/part_fetcher.h"
#include "server/part_restorer.h"
#include "server/part_saver.h"
#include "tests/integration/core_job.h"
#include "tests/support/forwarding_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace weir {

// Other servers of the test, as if they were on other machines.
class FakePartTransport final : public PartTransport {
 public:
  void Add(const std::string& address, PartFetcher& server) { servers_[address] = &server; }
  int calls() const { return calls_; }

  absl::Status Fetch(const std::string& address, const v1::FetchPartRequest& request, absl::Time,
                     PartReader::Consume consume) override {
    ++calls_;
    const auto server = servers_.find(address);
    if (server == servers_.end()) return absl::UnavailableError(absl::StrCat("no ", address));
    return server->second->Fetch(request, consume);
  }

 private:
  std::map<std::string, PartFetcher*> servers_;
  int calls_ = 0;
};

// No test here ends with a power failure.
class UnsyncedFiles final : public ForwardingFileSystem {
 public:
  absl::Status SyncFile(const std::string&) override { return absl::OkStatus(); }
  absl::Status SyncFolder(const std::string&) override { return absl::OkStatus(); }
};

class CheckpointTest : public ::testing::Test {
 protected:
  CoreJob::Options JobOptions(const v1::Optimizer& optimizer, int servers) {
    CoreJob::Options options;
    options.declaration = EveryKindOfVariable(optimizer);
    options.regime = regime_;
    options.servers = servers;
    // 57 x 100 f32 are three shards of at most two chunks.
    options.shard_bytes = 8192;
    options.chunk_bytes = 4096;
    options.clock = &clock_;
    options.executor = &executor_;
    return options;
  }

  std::string RootOf(const CoreJob& job, int server) {
    return temp_ / absl::StrCat("attempt-", job.view().attempt(), "/", job.ServerName(server));
  }

  absl::StatusOr<std::unique_ptr<CoreJob>> Start(const v1::Optimizer& optimizer, int servers) {
    auto job = std::make_unique<CoreJob>(JobOptions(optimizer, servers));
    WEIR_RETURN_IF_ERROR(job->Enter(v1::JOB_STATE_INITIALISING));
    WEIR_RETURN_IF_ERROR(job->Assign());
    WEIR_RETURN_IF_ERROR(job->Enter(v1::JOB_STATE_RUNNING));
    return job;
  }

  // All parts of a checkpoint whose first step to come is `step`.
  absl::StatusOr<std::vector<v1::CheckpointPart>> Save(CoreJob& job, uint64_t step) {
    WEIR_ASSIGN_OR_RETURN(const v1::SavePartRequest request, job.PrepareCut(7, step, kId));
    std::vector<v1::CheckpointPart> parts;
    for (int i = 0; i < job.num_servers(); ++i) {
      PartSaver saver({.files = &files_,
                       .executor = &executor_,
                       .clock = &clock_,
                       .root = RootOf(job, i),
                       .server = job.ServerName(i),
                       .slice_bytes = 5000});
      absl::StatusOr<v1::SavePartReply> reply = absl::InternalError("not answered");
      saver.Save(job.server(i), request, absl::InfiniteFuture(),
                 [&](absl::StatusOr<v1::SavePartReply> got) { reply = std::move(got); });
      executor_.Advance(absl::Seconds(5));
      if (!reply.ok()) return reply.status();
      parts.push_back(reply->part());
    }
    return parts;
  }

  // What all parts hold, by key: "shard/chunk".
  absl::StatusOr<std::map<std::string, std::string>> Records(
      const std::vector<v1::CheckpointPart>& parts) {
    std::map<std::string, std::string> records;
    for (const v1::CheckpointPart& part : parts) {
      WEIR_ASSIGN_OR_RETURN(const auto reader,
                            PartReader::Open(FileSystem::Real(), part.directory(), part.files()));
      for (int i = 0; i < part.shards_size(); ++i) {
        WEIR_RETURN_IF_ERROR(reader->ReadShard(
            part.ids(0), ShardId{part.shards(i)}, [&](uint64_t chunk, absl::string_view record) {
              records[absl::StrCat(part.shards(i), "/", chunk)] = std::string(record);
              return absl::OkStatus();
            }));
      }
    }
    return records;
  }

  // A later attempt on other servers, not yet restored.
  std::unique_ptr<CoreJob> Resume(const v1::Optimizer& optimizer, int servers, uint64_t step) {
    CoreJob::Options options = JobOptions(optimizer, servers);
    options.attempt = 2;
    options.resume.set_checkpoint_id(kId);
    options.resume.set_step(step);
    options.resume.set_examples(32 * step);
    options.resume.add_group_steps(step);
    options.resume.add_group_steps(step);
    return std::make_unique<CoreJob>(options);
  }

  v1::RestoreRequest RestoreRequestOf(const CoreJob& job,
                                      const std::vector<v1::CheckpointPart>& parts) {
    v1::RestoreRequest request;
    request.set_term(1);
    *request.mutable_view() = job.view();
    request.set_checkpoint_id(kId);
    *request.mutable_layout() = job.view().shard_map();
    for (const v1::CheckpointPart& part : parts) {
      *request.add_parts() = part;
      request.add_fetch_addresses("at " + part.server());
    }
    return request;
  }

  absl::Status RestoreOn(CoreJob& job, int server, const v1::RestoreRequest& request,
                         PartFetcher& local) {
    PartRestorer restorer({.local = &local,
                           .peers = &peers_,
                           .executor = &executor_,
                           .clock = &clock_,
                           .server = job.ServerName(server)});
    std::optional<absl::Status> status;
    restorer.Restore(job.server(server), request, absl::InfiniteFuture(),
                     [&](absl::StatusOr<v1::RestoreReply> reply) { status = reply.status(); });
    executor_.RunAll();
    return status.value_or(absl::InternalError("not answered"));
  }

  absl::Status Restore(CoreJob& job, const std::vector<v1::CheckpointPart>& parts) {
    WEIR_RETURN_IF_ERROR(job.Enter(v1::JOB_STATE_RESTORING));
    for (int i = 0; i < job.num_servers(); ++i) {
      PartFetcher local(FileSystem::Real(), {RootOf(job, i)});
      WEIR_RETURN_IF_ERROR(RestoreOn(job, i, RestoreRequestOf(job, parts), local));
    }
    return job.Enter(v1::JOB_STATE_RUNNING);
  }

  static constexpr char kId[] = "00000001-1";
  v1::Regime regime_ = v1::REGIME_ASYNC;
  FakeClock clock_;
  ManualExecutor executor_{clock_};
  TempFolder temp_;
  UnsyncedFiles files_;
  FakePartTransport peers_;
};

}  // namespace weir
