// SPDX-License-Identifier: Apache-2.0
#include "worker/dataset_input.h"

#include <gmock/gmock.h>

#include "common/mutex.h"
#include "tests/support/eventually.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::ElementsAre;

std::string Text(const BatchSlice& slice) {
  return absl::StrCat(slice.epoch, ":", slice.first, "-", slice.end);
}

// Batches are known by what the reader was asked for. Read from any thread, one at a time.
class TextReader final : public SliceReader {
 public:
  uint64_t size() const override { return 100; }
  absl::StatusOr<ReplicaBatch> Read(const BatchSlice& slice) override {
    MutexLock lock(mutex_);
    reads_.push_back(Text(slice));
    if (Text(slice) == fails_) return absl::InvalidArgumentError("no such picture");
    return ReplicaBatch(slice.examples() + 1000 * slice.first, nullptr);
  }
  std::vector<std::string> reads() const {
    MutexLock lock(mutex_);
    return reads_;
  }
  void FailAt(const std::string& slice) { fails_ = slice; }

 private:
  mutable Mutex mutex_;
  std::vector<std::string> reads_ ABSL_GUARDED_BY(mutex_);
  std::string fails_;
};

struct Made {
  std::vector<TextReader*> readers;
  std::unique_ptr<DatasetInput> input;
};

Made Make(const PipelinePlace& place, uint32_t ahead = 0) {
  Made made;
  std::vector<std::unique_ptr<SliceReader>> readers;
  for (uint32_t i = 0; i < place.pipelines; ++i) {
    auto reader = std::make_unique<TextReader>();
    made.readers.push_back(reader.get());
    readers.push_back(std::move(reader));
  }
  made.input = std::make_unique<DatasetInput>(std::move(readers), place, ahead);
  return made;
}

std::vector<uint64_t> Take(DatasetInput& input, const InputRequest& request) {
  const auto batches = input.Take(request);
  EXPECT_THAT(batches, IsOk());
  std::vector<uint64_t> taken;
  if (!batches.ok()) return taken;
  for (const ReplicaBatch& batch : *batches) taken.push_back(batch.examples);
  return taken;
}

InputRequest Request(const BatchSlice& slice, std::vector<BatchSlice> upcoming = {}) {
  InputRequest request;
  request.slice = slice;
  request.upcoming = std::move(upcoming);
  return request;
}

TEST(DatasetInput, ReplicasDivideASliceTheRemainderGoesToTheFirst) {
  const Made made = Make({0, 1, 3});
  Take(*made.input, Request({2, 10, 18}));
  EXPECT_THAT(made.readers[0]->reads(), ElementsAre("2:10-13", "2:13-16", "2:16-18"));
}

TEST(DatasetInput, ASliceThatIsTooSmallLeavesTheLastReplicasWithEmptyBatches) {
  const Made made = Make({0, 1, 3});
  EXPECT_THAT(Take(*made.input, Request({0, 0, 1})), ElementsAre(1, 1000, 1000));
}

TEST(DatasetInput, APipelineOfEachReplicaReadsItsReplicasPartAlone) {
  for (const uint32_t ahead : {0, 2}) {
    const Made made = Make({4, 2, 2}, ahead);
    Take(*made.input, Request({0, 0, 8}));
    EXPECT_THAT(made.readers[0]->reads(), ElementsAre("0:0-4"));
    EXPECT_THAT(made.readers[1]->reads(), ElementsAre("0:4-8"));
  }
}

TEST(DatasetInput, TheNextStepsAreReadWhileOneRuns) {
  const Made made = Make({0, 1, 1}, 2);
  Take(*made.input, Request({0, 0, 8}, {{0, 8, 16}, {0, 16, 24}}));
  EXPECT_TRUE(Eventually([&] { return made.readers[0]->reads().size() == 3; }));
  EXPECT_THAT(made.readers[0]->reads(), ElementsAre("0:0-8", "0:8-16", "0:16-24"));
  // What is there is not read again.
  EXPECT_THAT(Take(*made.input, Request({0, 8, 16}, {{0, 16, 24}})), ElementsAre(8008));
  EXPECT_THAT(Take(*made.input, Request({0, 16, 24})), ElementsAre(16008));
  EXPECT_EQ(made.readers[0]->reads().size(), 3u);
}

// Another worker has left after the first step: the slices are larger from then on.
TEST(DatasetInput, AWrongGuessIsReadAnew) {
  const Made made = Make({0, 1, 2}, 2);
  Take(*made.input, Request({0, 0, 4}, {{0, 8, 12}, {0, 16, 20}}));
  EXPECT_THAT(Take(*made.input, Request({0, 8, 16}, {{0, 16, 24}})), ElementsAre(8004, 12004));
  EXPECT_THAT(Take(*made.input, Request({0, 16, 24})), ElementsAre(16004, 20004));
}

TEST(DatasetInput, AnErrorNamesPipelineAndReplica) {
  for (const uint32_t ahead : {0, 1}) {
    const Made made = Make({4, 2, 2}, ahead);
    made.readers[1]->FailAt("0:4-8");
    InputRequest request = Request({0, 0, 8});
    request.first_replica = 4;
    EXPECT_THAT(made.input->Take(request).status(),
                HasStatus(absl::StatusCode::kInvalidArgument,
                          "input pipeline 5, replica 5: no such picture"));
  }
}

// A reader that never ends until it is let go.
class HeldReader final : public SliceReader {
 public:
  uint64_t size() const override { return 100; }
  absl::StatusOr<ReplicaBatch> Read(const BatchSlice&) override {
    MutexLock lock(mutex_);
    while (held_) changed_.Wait(mutex_);
    return ReplicaBatch();
  }
  void LetGo() {
    MutexLock lock(mutex_);
    held_ = false;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool held_ ABSL_GUARDED_BY(mutex_) = true;
};

TEST(DatasetInput, AWaitForAReaderEndsWhenItMayNotGoOn) {
  std::vector<std::unique_ptr<SliceReader>> readers;
  auto held = std::make_unique<HeldReader>();
  HeldReader& reader = *held;
  readers.push_back(std::move(held));
  DatasetInput input(std::move(readers), {0, 1, 1}, 1);
  InputRequest request = Request({0, 0, 8});
  request.go_on = [] { return absl::CancelledError("the job shall stop"); };
  EXPECT_THAT(input.Take(request).status(),
              HasStatus(absl::StatusCode::kCancelled, "the job shall stop"));
  reader.LetGo();
}

}  // namespace
}  // namespace weir
