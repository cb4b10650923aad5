// SPDX-License-Identifier: Apache-2.0
// How fast the server applies gradients, beside a triad that moves the same bytes. Each iteration
// runs both, one after the other; the time shown is the apply's alone. Counters:
//   gradient_GBps  gradient bytes applied per second
//   traffic_GBps   bytes read and written per second: gradient, weights, slots
//   triad_GBps     the same for the triad
//   of_triad       median over the iterations of apply's speed over triad's
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "bench/statistics.h"
#include "bench/stopwatch.h"
#include "bench/triad.h"
#include "common/clock.h"
#include "common/executor.h"
#include "rpc/payload.h"
#include "server/buffer_pool.h"
#include "server/optimizer/update_rule.h"
#include "sharding/layout.h"

namespace weir::bench {
namespace {

constexpr size_t kChunkElements = kDefaultChunkBytes / sizeof(float);
constexpr size_t kSlotStride = kDefaultChunkBytes + 64;  // as far apart as no power of two
// About what one HTTP/2 frame carries: slices of received gradients end anywhere.
constexpr size_t kSliceBytes = 16375;

enum class Way {
  kInPlace,      // aligned gradients, nobody reads
  kCopyOnWrite,  // a reader holds every chunk
  kFromSlices,   // in place, from short unaligned slices
};

struct Chunk {
  BufferRef weights;
  BufferRef slots;
};

// A model of `bytes` of f32 in chunks, and gradients for it.
class Model {
 public:
  Model(BufferPool& pool, const UpdateRule& rule, size_t bytes)
      : rule_(rule), gradient_(bytes + 1, std::byte{0}) {
    for (size_t at = 0; at < bytes; at += kDefaultChunkBytes) {
      chunks_.push_back(MakeChunk(pool));
      spares_.push_back(MakeChunk(pool));
      for (Chunk* chunk : {&chunks_.back(), &spares_.back()}) {
        std::memset(chunk->weights.mutable_data(), 0, kDefaultChunkBytes);
        rule.InitialiseSlots(chunk->slots.mutable_data(), kSlotStride, kChunkElements);
      }
    }
    for (size_t i = 0; i < bytes; i += sizeof(float)) {
      const float value = 1e-3f * static_cast<float>(1 + i % 7);
      std::memcpy(gradient_.data() + i, &value, sizeof(float));
    }
  }

  void Apply(Way way) {
    ++updates_;
    for (size_t c = 0; c < chunks_.size(); ++c) {
      const std::byte* gradient = gradient_.data() + c * kDefaultChunkBytes;
      if (way == Way::kFromSlices) {
        ApplySlices(gradient, chunks_[c]);
      } else if (way == Way::kInPlace) {
        ApplyRun(gradient, 0, kChunkElements, chunks_[c], chunks_[c]);
      } else {
        ApplyRun(gradient, 0, kChunkElements, chunks_[c], spares_[c]);
        std::swap(chunks_[c], spares_[c]);
      }
    }
  }

  size_t num_slots() const { return rule_.num_slots(); }

 private:
  Chunk MakeChunk(BufferPool& pool) const {
    return {pool.Allocate(kDefaultChunkBytes), pool.Allocate(rule_.num_slots() * kSlotStride)};
  }

  void ApplyRun(const std::byte* gradient, size_t first, size_t count, Chunk& from, Chunk& to) {
    rule_.Apply({.learning_rate = 1e-3, .updates_before = updates_}, gradient, first, count,
                {from.weights.data(), to.weights.mutable_data(), from.slots.data(),
                 to.slots.mutable_data(), kSlotStride});
  }

  void ApplySlices(const std::byte* gradient, Chunk& chunk) {
    Payload payload;
    for (size_t at = 0; at < kDefaultChunkBytes; at += kSliceBytes) {
      payload.Append(gradient + at, std::min(kSliceBytes, kDefaultChunkBytes - at));
    }
    ForEachRun(payload, 0, kChunkElements, sizeof(float),
               [&](const std::byte* data, size_t first, size_t count) {
                 ApplyRun(data, first, count, chunk, chunk);
               });
  }

  const UpdateRule& rule_;
  std::vector<std::byte> gradient_;
  std::vector<Chunk> chunks_;
  std::vector<Chunk> spares_;
  uint64_t updates_ = 0;
};

double SecondsOf(const auto& action) {
  const Stopwatch stopwatch;
  action();
  return stopwatch.seconds();
}

void RunApply(benchmark::State& state, const v1::Optimizer& optimizer, size_t bytes, Way way) {
  const auto rule = *UpdateRule::Create(optimizer, v1::DTYPE_F32);
  const auto executor = Executor::CreatePool(1);
  BufferPool pool({.clock = &Clock::Real(), .executor = executor.get()});
  Model model(pool, *rule, bytes);

  const size_t traffic = bytes * (3 + 2 * model.num_slots());
  const size_t triad_elements = traffic / 12;
  std::vector<float> a(triad_elements, 1);
  std::vector<float> b(triad_elements + 16, 1e-3f);

  model.Apply(way);
  Alternation times;
  for (auto _ : state) {
    const double apply = SecondsOf([&] { model.Apply(way); });
    const double triad = SecondsOf([&] { Triad(a.data(), b.data() + 16, 1e-3f, triad_elements); });
    benchmark::DoNotOptimize(a.data());
    times.Add(apply, triad);
    state.SetIterationTime(apply);
  }
  state.counters["gradient_GBps"] = static_cast<double>(bytes) / times.ours_seconds() / 1e9;
  state.counters["traffic_GBps"] = static_cast<double>(traffic) / times.ours_seconds() / 1e9;
  state.counters["triad_GBps"] = static_cast<double>(traffic) / times.limit_seconds() / 1e9;
  state.counters["of_triad"] = times.of_limit();
}

struct Named {
  std::string name;
  v1::Optimizer optimizer;
};

void SetAdam(v1::Adam& options, double weight_decay) {
  options.set_beta1(0.9);
  options.set_beta2(0.999);
  options.set_eps(1e-8);
  options.set_weight_decay(weight_decay);
}

std::vector<Named> Optimizers() {
  std::vector<Named> all(6);
  all[0].name = "sgd";
  all[0].optimizer.mutable_sgd();
  all[1].name = "momentum";
  all[1].optimizer.mutable_sgd()->set_momentum(0.9);
  all[2].name = "adagrad";
  all[2].optimizer.mutable_adagrad()->set_eps(1e-10);
  all[3].name = "rmsprop";
  all[3].optimizer.mutable_rmsprop()->set_alpha(0.99);
  all[3].optimizer.mutable_rmsprop()->set_eps(1e-8);
  all[4].name = "adam";
  SetAdam(*all[4].optimizer.mutable_adam(), 0);
  all[5].name = "adamw";
  SetAdam(*all[5].optimizer.mutable_adamw(), 0.01);
  return all;
}

void RegisterAll() {
  const std::pair<Way, const char*> ways[] = {{Way::kInPlace, "in_place"},
                                              {Way::kCopyOnWrite, "copy_on_write"},
                                              {Way::kFromSlices, "from_slices"}};
  for (const auto& [way, way_name] : ways) {
    for (const Named& named : Optimizers()) {
      for (const size_t mib : {1, 64}) {
        const std::string name =
            "apply/" + named.name + "/" + way_name + "/" + std::to_string(mib) + "MiB";
        benchmark::RegisterBenchmark(name.c_str(), [=, way = way](benchmark::State& state) {
          RunApply(state, named.optimizer, mib << 20, way);
        })->UseManualTime();
      }
    }
  }
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  weir::bench::RegisterAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
