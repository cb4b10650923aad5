// SPDX-License-Identifier: Apache-2.0
#include "worker/dataset_input.h"

#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "common/mutex.h"

namespace weir {
namespace {

constexpr absl::Duration kAskEvery = absl::Milliseconds(250);

BatchSlice PartOfSlice(const BatchSlice& slice, uint32_t replica, uint32_t replicas) {
  const BatchSlice part = PartOf(slice.examples(), replica, replicas);
  return {slice.epoch, slice.first + part.first, slice.first + part.end};
}

bool Same(const BatchSlice& a, const BatchSlice& b) {
  return a.epoch == b.epoch && a.first == b.first && a.end == b.end;
}

}  // namespace

// Reads slices on a thread of its own, in the order in which they will probably be taken.
class ReadAhead {
 public:
  explicit ReadAhead(SliceReader& reader) : reader_(reader), thread_([this] { Loop(); }) {}
  ~ReadAhead() {
    {
      MutexLock lock(mutex_);
      stop_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }

  // From here on these are wanted, in this order; what else has been read is forgotten.
  void Want(const std::vector<BatchSlice>& slices) {
    MutexLock lock(mutex_);
    std::deque<std::shared_ptr<Item>> wanted;
    for (const BatchSlice& slice : slices) {
      std::shared_ptr<Item> item = Find(slice);
      wanted.push_back(item != nullptr ? item : std::make_shared<Item>(Item{slice, false, {}}));
    }
    wanted_ = std::move(wanted);
    changed_.NotifyAll();
  }

  // One of those that are wanted.
  absl::StatusOr<ReplicaBatch> Await(const BatchSlice& slice,
                                     const std::function<absl::Status()>& go_on) {
    while (true) {
      {
        MutexLock lock(mutex_);
        const std::shared_ptr<Item> item = Find(slice);
        if (item->batch) return *item->batch;
        changed_.WaitFor(mutex_, kAskEvery);
        if (item->batch) return *item->batch;
      }
      const absl::Status status = go_on();
      if (!status.ok()) return status;
    }
  }

 private:
  struct Item {
    BatchSlice slice;
    bool taken_up = false;
    std::optional<absl::StatusOr<ReplicaBatch>> batch;
  };

  std::shared_ptr<Item> Find(const BatchSlice& slice) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const auto& item : wanted_) {
      if (Same(item->slice, slice)) return item;
    }
    return nullptr;
  }

  std::shared_ptr<Item> NextToRead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const auto& item : wanted_) {
      if (!item->taken_up) return item;
    }
    return nullptr;
  }

  void Loop() {
    while (true) {
      std::shared_ptr<Item> item;
      {
        MutexLock lock(mutex_);
        while (!stop_ && (item = NextToRead()) == nullptr) changed_.Wait(mutex_);
        if (stop_) return;
        item->taken_up = true;
      }
      absl::StatusOr<ReplicaBatch> batch = reader_.Read(item->slice);
      MutexLock lock(mutex_);
      item->batch = std::move(batch);
      changed_.NotifyAll();
    }
  }

  SliceReader& reader_;
  Mutex mutex_;
  CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::shared_ptr<Item>> wanted_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses the rest
};

DatasetInput::DatasetInput(std::vector<std::unique_ptr<SliceReader>> readers,
                           const PipelinePlace& place, uint32_t ahead)
    : place_(place), ahead_(ahead), readers_(std::move(readers)) {
  if (ahead_ == 0) return;
  for (const auto& reader : readers_) reading_.push_back(std::make_unique<ReadAhead>(*reader));
}

DatasetInput::~DatasetInput() = default;

absl::StatusOr<std::vector<ReplicaBatch>> DatasetInput::Take(const InputRequest& request) {
  const auto part = [&](const BatchSlice& slice, uint32_t replica) {
    return PartOfSlice(slice, replica, place_.replicas);
  };
  for (uint32_t pipeline = 0; pipeline < reading_.size(); ++pipeline) {
    std::vector<BatchSlice> wanted;
    const auto add = [&](const BatchSlice& slice) {
      for (uint32_t i = 0; i < place_.replicas; ++i) {
        if (place_.PipelineOf(i) == pipeline) wanted.push_back(part(slice, i));
      }
    };
    add(request.slice);
    for (const BatchSlice& slice : request.upcoming) add(slice);
    reading_[pipeline]->Want(wanted);
  }
  std::vector<ReplicaBatch> batches;
  for (uint32_t i = 0; i < place_.replicas; ++i) {
    const BatchSlice slice = part(request.slice, i);
    const uint32_t pipeline = place_.PipelineOf(i);
    absl::Status given_up;
    const auto go_on = [&] {
      if (request.go_on) given_up = request.go_on();
      return given_up;
    };
    absl::StatusOr<ReplicaBatch> batch = reading_.empty() ? readers_[pipeline]->Read(slice)
                                                          : reading_[pipeline]->Await(slice, go_on);
    if (!given_up.ok()) return given_up;
    if (!batch.ok()) return place_.Name(batch.status(), request, i);
    batches.push_back(*std::move(batch));
  }
  return batches;
}

}  // namespace weir
