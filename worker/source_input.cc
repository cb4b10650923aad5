// SPDX-License-Identifier: Apache-2.0
#include "worker/source_input.h"

#include <spdlog/spdlog.h>

#include <map>
#include <set>
#include <thread>
#include <utility>

#include "absl/types/optional.h"
#include "common/mutex.h"

namespace weir {
namespace {

constexpr absl::Duration kAskEvery = absl::Milliseconds(250);

}  // namespace

struct SourcePipeline::State {
  explicit State(const Options& o) : options(o), threads(o.threads) {}

  // Whether one more call may begin.
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const size_t made = ready.size() + calls.size();
    return made < options.prefetch || (asked && made == 0);
  }
  bool HasBatch() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (ready.empty()) return false;
    return !options.ordered || calls.empty() || *calls.begin() > ready.begin()->first;
  }

  // None: the thread shall end, and counts as ended.
  absl::optional<uint64_t> BeginCall() {
    MutexLock lock(mutex);
    while (!stop && end.ok() && !HasRoom()) changed.Wait(mutex);
    if (!stop && end.ok()) {
      calls.insert(next_call);
      return next_call++;
    }
    --threads;
    changed.NotifyAll();
    return absl::nullopt;
  }

  void EndCall(uint64_t call, absl::StatusOr<ReplicaBatch> batch) {
    MutexLock lock(mutex);
    calls.erase(call);
    if (batch.ok()) {
      ready.emplace(options.ordered ? call : next_arrival++, *std::move(batch));
    } else if (end.ok()) {
      end = batch.status();
    }
    changed.NotifyAll();
  }

  const Options options;
  Mutex mutex;
  CondVar changed;
  bool stop ABSL_GUARDED_BY(mutex) = false;
  bool asked ABSL_GUARDED_BY(mutex) = false;        // somebody waits for a batch
  uint64_t next_call ABSL_GUARDED_BY(mutex) = 0;    // calls are numbered
  std::set<uint64_t> calls ABSL_GUARDED_BY(mutex);  // that run
  absl::Status end ABSL_GUARDED_BY(mutex);          // not OK: no more calls
  uint32_t threads ABSL_GUARDED_BY(mutex);          // that have not ended
  // By call, or, unless ordered, in the order of arrival.
  std::map<uint64_t, ReplicaBatch> ready ABSL_GUARDED_BY(mutex);
  uint64_t next_arrival ABSL_GUARDED_BY(mutex) = 0;
};

SourcePipeline::SourcePipeline(std::shared_ptr<BatchSource> source, const Options& options)
    : options_(options), source_(std::move(source)), state_(std::make_shared<State>(options)) {
  for (uint32_t i = 0; i < options.threads; ++i) {
    // Detached, because the callable is the user's, and may never come back: the destructor waits.
    std::thread([state = state_, source = source_] { Call(*state, *source); }).detach();
  }
}

SourcePipeline::~SourcePipeline() {
  {
    MutexLock lock(state_->mutex);
    state_->stop = true;
    state_->changed.NotifyAll();
  }
  source_->Stop();
  const absl::Time give_up = options_.clock->Now() + options_.patience;
  MutexLock lock(state_->mutex);
  while (state_->threads > 0 && options_.clock->Now() < give_up) {
    state_->changed.WaitFor(state_->mutex, kAskEvery);
  }
  if (state_->threads == 0) return;
  spdlog::error(
      "an input callable that was told to stop has not returned within {}: it is left behind; let "
      "it look at its StopToken while it waits",
      absl::FormatDuration(options_.patience));
}

void SourcePipeline::Call(State& state, BatchSource& source) {
  while (const absl::optional<uint64_t> call = state.BeginCall()) {
    state.EndCall(*call, source.Next());
  }
}

absl::StatusOr<ReplicaBatch> SourcePipeline::Take(const std::function<absl::Status()>& go_on) {
  State& state = *state_;
  while (true) {
    {
      MutexLock lock(state.mutex);
      if (!state.HasBatch() && (state.end.ok() || !state.calls.empty())) {
        state.asked = true;
        state.changed.NotifyAll();
        state.changed.WaitFor(state.mutex, kAskEvery);
      }
      if (state.HasBatch()) {
        ReplicaBatch batch = std::move(state.ready.begin()->second);
        state.ready.erase(state.ready.begin());
        state.asked = false;
        state.changed.NotifyAll();
        return batch;
      }
      if (!state.end.ok() && state.calls.empty()) return state.end;
    }
    const absl::Status status = go_on();
    if (!status.ok()) return status;
  }
}

absl::StatusOr<std::vector<ReplicaBatch>> SourceInput::Take(const InputRequest& request) {
  std::vector<ReplicaBatch> batches;
  for (uint32_t i = 0; i < place_.replicas; ++i) {
    absl::Status given_up;
    const auto go_on = [&] {
      if (request.go_on) given_up = request.go_on();
      return given_up;
    };
    absl::StatusOr<ReplicaBatch> batch = pipelines_[place_.PipelineOf(i)]->Take(go_on);
    if (!given_up.ok()) return given_up;
    if (!batch.ok()) return place_.Name(batch.status(), request, i);
    batches.push_back(*std::move(batch));
  }
  return batches;
}

}  // namespace weir
