// SPDX-License-Identifier: Apache-2.0
// Many threads on one server. Values are integers, so sums in f32 are exact in any order.
#include <atomic>
#include <random>
#include <thread>

#include "tests/support/call_and_wait.h"
#include "tests/unit/server/server_fixture.h"

namespace weir {
namespace {

constexpr uint64_t kElements = 1000;  // 63 chunks in 16 shards
constexpr int kWorkers = 4;

class PushStorm : public ::testing::Test {
 protected:
  void Start(bool sync, uint64_t size = kElements) {
    elements = size;
    server =
        std::make_unique<ParameterServer>(ParameterServer::Options{.name = "weir-server-0",
                                                                   .incarnation = kServer,
                                                                   .clock = &clock,
                                                                   .executor = executor.get()});
    if (sync) view.Sync();
    view.AddVariable("w", elements);
    for (int w = 1; w <= kWorkers; ++w) view.AddMember(w);
    WEIR_ASSERT_OK(server->ApplyView(view.Make()));
    const RequestMaker maker(view, 1);
    WEIR_ASSERT_OK(CallAndWait<v1::AssignReply>([&](auto done) {
      server->Assign(maker.Assign(maker.SegmentsOf(0)), PayloadOf(Filled(elements, 0)), Later(),
                     std::move(done));
    }));
    view.edit().set_state(v1::JOB_STATE_RUNNING);
    WEIR_ASSERT_OK(server->ApplyView(view.NextVersion().Make()));
  }
  absl::Time Later() const { return clock.Now() + absl::Minutes(1); }
  std::vector<float> Weights() {
    const RequestMaker reader(view, 0);
    auto pulled = CallAndWait<PullResult>([&](auto done) {
      server->Pull(reader.Pull(reader.SegmentsOf(0)), Later(), std::move(done));
    });
    EXPECT_THAT(pulled, IsOk());
    return ValuesOf<float>(pulled->payload);
  }

  // Sends one shard of one sequence, at times twice at once. Shards come in any order.
  void SendShard(const RequestMaker& maker, uint64_t sequence, const v1::Segment& segment,
                 float value, std::mt19937& random) {
    const v1::PushRequest request = maker.Push({segment}, sequence);
    const int copies = random() % 3 == 0 ? 2 : 1;
    std::vector<std::thread> twins;
    for (int copy = 0; copy < copies; ++copy) {
      const bool pulls = random() % 2 == 0;
      auto send = [this, request, value, pulls, count = segment.count()] {
        if (pulls) {
          EXPECT_THAT(CallAndWait<PullResult>([&](auto done) {
                        server->PushPull(request, PayloadOf(Filled(count, value)), Later(),
                                         std::move(done));
                      }),
                      IsOk());
        } else {
          EXPECT_THAT(CallAndWait<v1::PushReply>([&](auto done) {
                        server->Push(request, PayloadOf(Filled(count, value)), Later(),
                                     std::move(done));
                      }),
                      IsOk());
        }
      };
      if (copies == 1) {
        send();
      } else {
        twins.emplace_back(send);
      }
    }
    for (std::thread& twin : twins) twin.join();
  }

  FakeClock clock;  // stands still: no deadline passes, however slow the machine is
  std::unique_ptr<Executor> executor = Executor::CreatePool(2);
  uint64_t elements = 0;
  ViewMaker view;
  std::unique_ptr<ParameterServer> server;
};

TEST_F(PushStorm, AfterRetriesAndDuplicatesTheWeightsAreTheExactSum) {
  Start(/*sync=*/false);
  constexpr uint64_t kPushes = 20;
  std::vector<std::thread> workers;
  for (int w = 1; w <= kWorkers; ++w) {
    workers.emplace_back([this, w] {
      std::mt19937 random(static_cast<uint32_t>(w));
      const RequestMaker maker(view, w);
      std::vector<v1::Segment> segments = maker.SegmentsOf(0);
      for (uint64_t sequence = 1; sequence <= kPushes; ++sequence) {
        const auto value = static_cast<float>(w * 100 + static_cast<int>(sequence));
        std::shuffle(segments.begin(), segments.end(), random);
        for (const v1::Segment& segment : segments) {
          SendShard(maker, sequence, segment, value, random);
        }
        // Some of it again, long after.
        SendShard(maker, sequence, segments[random() % segments.size()], value, random);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  // sum over w of (20 * 100 w + (1 + ... + 20)) = 2000 * 10 + 4 * 210 = 20840
  EXPECT_EQ(Weights(), Filled(kElements, -20840));
}

// Of chunks as large as a job's, whose update takes longer than a switch of threads.
TEST_F(PushStorm, APullNeverReturnsATornChunk) {
  view.chunk_bytes = 128 << 10;
  view.shard_bytes = 256 << 10;
  Start(/*sync=*/false, /*size=*/100000);
  std::atomic<bool> done{false};
  std::atomic<int> pulls{0};
  std::thread reader([&] {
    const RequestMaker maker(view, 0);
    while (!done || pulls < 10) {
      const auto pulled = CallAndWait<PullResult>([&](auto answer) {
        server->Pull(maker.Pull(maker.SegmentsOf(0)), Later(), std::move(answer));
      });
      ASSERT_THAT(pulled, IsOk());
      ++pulls;
      for (const Payload::Slice& chunk : pulled->payload.slices()) {
        std::vector<float> values(chunk.size / sizeof(float));
        std::memcpy(values.data(), chunk.data, chunk.size);
        for (const float value : values) ASSERT_EQ(value, values[0]) << "torn";
      }
    }
  });
  std::vector<std::thread> writers;
  for (int w = 1; w <= 2; ++w) {
    writers.emplace_back([this, w] {
      const RequestMaker maker(view, w);
      for (uint64_t sequence = 1; sequence <= 500; ++sequence) {
        ASSERT_THAT(CallAndWait<v1::PushReply>([&](auto answer) {
                      server->Push(maker.Push(maker.SegmentsOf(0), sequence),
                                   PayloadOf(Filled(elements, 1)), Later(), std::move(answer));
                    }),
                    IsOk());
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  done = true;
  reader.join();
  EXPECT_EQ(Weights(), Filled(elements, -1000));
}

TEST_F(PushStorm, SyncStepsOfFourThreadsGiveTheMeanOfEachStep) {
  Start(/*sync=*/true);
  constexpr uint64_t kSteps = 15;
  std::vector<std::thread> workers;
  for (int w = 1; w <= kWorkers; ++w) {
    workers.emplace_back([this, w] {
      const RequestMaker maker(view, w);
      for (uint64_t step = 0; step < kSteps; ++step) {
        // All shards in flight at once, each in a message of its own and twice.
        std::vector<std::thread> messages;
        for (const v1::Segment& segment : maker.SegmentsOf(0)) {
          const auto send = [&, segment] {
            const auto pulled = CallAndWait<PullResult>([&](auto answer) {
              server->PushPull(maker.Push({segment}, step + 1),
                               PayloadOf(Filled(segment.count(), static_cast<float>(4 * w))),
                               Later(), std::move(answer));
            });
            ASSERT_THAT(pulled, IsOk());
            // (4 + 8 + 12 + 16) / 4 = 10 each step
            EXPECT_EQ(ValuesOf<float>(pulled->payload),
                      Filled(segment.count(), -10.0f * static_cast<float>(step + 1)));
          };
          messages.emplace_back(send);
          messages.emplace_back(send);
        }
        for (std::thread& message : messages) message.join();
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
}

TEST_F(PushStorm, MembersThatLeaveInTheMiddleOfStepsHoldNobodyUp) {
  Start(/*sync=*/true);
  constexpr uint64_t kSteps = 30;
  std::vector<std::thread> workers;
  for (int w = 1; w <= 2; ++w) {
    workers.emplace_back([this, w] {
      for (uint64_t step = 0; step < kSteps; ++step) {
        absl::Status status = absl::UnavailableError("not sent");
        // The generation changes under way: take the new view, and send the same again.
        for (uint64_t generation = 1; !status.ok() && generation <= 3; ++generation) {
          ViewMaker own = view;
          own.edit().set_generation(generation);
          const RequestMaker maker(own, w);
          status = CallAndWait<PullResult>([&](auto answer) {
                     server->PushPull(maker.Push(maker.SegmentsOf(0), step + 1),
                                      PayloadOf(Filled(kElements, 1)), Later(), std::move(answer));
                   }).status();
        }
        ASSERT_THAT(status, IsOk());
      }
    });
  }
  ViewMaker changing = view;
  // Workers 3 and 4 never push: without their leave nothing goes on.
  for (const uint64_t gone : {3, 4}) {
    WEIR_ASSERT_OK(server->ApplyView(changing.RemoveMember(gone).NextGeneration().Make()));
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(Weights(), Filled(kElements, -30));
}

}  // namespace
}  // namespace weir
