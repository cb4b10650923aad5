// SPDX-License-Identifier: Apache-2.0
#include "server/part_restorer.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "rpc/errors.h"
#include "server/parameter_store.h"
#include "server/shard_loader.h"

namespace weir {
namespace {

absl::Status CheckSameLayout(const StorePlan& plan, const v1::ShardMap& saved) {
  const Layout& layout = plan.layout();
  if (layout.shard_bytes() == saved.shard_bytes() && layout.chunk_bytes() == saved.chunk_bytes() &&
      layout.shards().size() == static_cast<size_t>(saved.server_of_shard_size())) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the checkpoint has ", saved.server_of_shard_size(), " shards of ", saved.shard_bytes(),
      " bytes in chunks of ", saved.chunk_bytes(), "; the job has ", layout.shards().size(), " of ",
      layout.shard_bytes(), " in chunks of ", layout.chunk_bytes()));
}

absl::Status Fill(ParameterStore& store, const PartRestorer::Options& options,
                  const v1::RestoreRequest& request, absl::Time deadline) {
  WEIR_RETURN_IF_ERROR(CheckSameLayout(store.plan(), request.layout()));
  WEIR_ASSIGN_OR_RETURN(ShardLoader loader, ShardLoader::Create({.request = &request,
                                                                 .local = options.local,
                                                                 .peers = options.peers,
                                                                 .server = options.server,
                                                                 .deadline = deadline}));
  for (const LocalShard& shard : store.plan().shards()) {
    if (options.clock->Now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("checkpoint ", request.checkpoint_id(), " was not restored in time; shard ",
                       static_cast<uint64_t>(shard.shard.id), " was next"));
    }
    if (options.stopping != nullptr && *options.stopping) {
      return absl::UnavailableError("the server is shutting down");
    }
    WEIR_RETURN_IF_ERROR(loader.Load(store, shard));
  }
  spdlog::info("restored run={:016x} checkpoint={} shards={}", request.view().run_id(),
               request.checkpoint_id(), store.plan().shards().size());
  const v1::ResumePoint& resume = request.view().resume();
  const std::vector<uint64_t> group_steps(resume.group_steps().begin(), resume.group_steps().end());
  return store.FinishRestore(group_steps);
}

}  // namespace

// What has been restored here, by run. Thread-safe.
class PartRestorer::Ledger {
 public:
  // True: the caller does it now and settles it. False: it has been done.
  // Errors: Unavailable - it is under way.
  absl::StatusOr<bool> Claim(const v1::RestoreRequest& request) {
    MutexLock lock(mutex_);
    Entry& entry = runs_[request.view().run_id()];
    if (!entry.IsOf(request)) {
      entry = {request.view().attempt(), request.checkpoint_id(), true};
      return true;
    }
    if (!entry.under_way) return false;
    return absl::UnavailableError(
        absl::StrCat("checkpoint ", request.checkpoint_id(), " is being restored"));
  }

  void Settle(const v1::RestoreRequest& request, bool done) {
    MutexLock lock(mutex_);
    const auto entry = runs_.find(request.view().run_id());
    if (entry == runs_.end() || !entry->second.IsOf(request)) return;  // a newer attempt's
    entry->second.under_way = false;
    if (!done) runs_.erase(entry);
  }

 private:
  struct Entry {
    uint64_t attempt = 0;
    std::string checkpoint_id;
    bool under_way = false;

    bool IsOf(const v1::RestoreRequest& request) const {
      return attempt == request.view().attempt() && checkpoint_id == request.checkpoint_id();
    }
  };

  Mutex mutex_;
  absl::flat_hash_map<uint64_t, Entry> runs_ ABSL_GUARDED_BY(mutex_);
};

PartRestorer::PartRestorer(Options options)
    : options_(std::move(options)), ledger_(std::make_shared<Ledger>()) {}

PartRestorer::~PartRestorer() = default;

void PartRestorer::Restore(ParameterServer& server, const v1::RestoreRequest& request,
                           absl::Time deadline, Done done) {
  const absl::Status applied = server.ApplyView(request.view());
  if (!applied.ok()) return std::move(done)(applied);
  absl::StatusOr<std::shared_ptr<ParameterStore>> store = server.Store(request.view().run_id());
  if (!store.ok()) return std::move(done)(store.status());
  if ((*store)->attempt() != request.view().attempt()) {
    return std::move(done)(StaleAttempt(request.view().attempt(), (*store)->attempt()));
  }
  const absl::StatusOr<bool> claimed = ledger_->Claim(request);
  if (!claimed.ok()) return std::move(done)(claimed.status());
  if (!*claimed) return std::move(done)(v1::RestoreReply());
  options_.executor->Run([options = options_, ledger = ledger_, store = *std::move(store), request,
                          deadline, done = std::move(done)]() mutable {
    const absl::Status status = Fill(*store, options, request, deadline);
    options.local->Close();
    ledger->Settle(request, status.ok());
    if (!status.ok()) return std::move(done)(status);
    std::move(done)(v1::RestoreReply());
  });
}

}  // namespace weir
