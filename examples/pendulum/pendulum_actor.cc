// SPDX-License-Identifier: Apache-2.0
// An actor: plays with the learners' newest weights, which it reads as no member of their job, and
// sends what it sees to their replays. One may come, go or die at any time.
//
//   pendulum_actor HOST:PORT JOB FOLDER [SEED]
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "examples/pendulum/pendulum.h"
#include "examples/pendulum/replay.h"
#include "weir/reader.h"

namespace {

using pendulum::kActions;
using pendulum::kHidden;
using pendulum::kObservation;

constexpr size_t kShown = 5;       // greedy episodes that a mean is of
constexpr int kExploring = 4;      // episodes between two greedy ones
constexpr int kSentTogether = 20;  // transitions
// About a thousand steps a second: the machine is the learners' too.
constexpr auto kPause = std::chrono::milliseconds(20);

// The learners' network, by hand: an actor needs no LibTorch.
class Policy {
 public:
  explicit Policy(weir::Reader& reader) : reader_(reader) {}

  // Not OK: the job has ended, or nobody answers.
  absl::Status Refresh() {
    const std::vector<weir::NamedBuffer> into = {Into("q/0.weight", w1_), Into("q/0.bias", b1_),
                                                 Into("q/2.weight", w2_), Into("q/2.bias", b2_),
                                                 Into("q/4.weight", w3_), Into("q/4.bias", b3_)};
    weir::ReadOptions options;
    options.max_age = absl::Milliseconds(100);
    return reader_.Pull(into, options).status();
  }

  int Best(const pendulum::Observation& observation) const {
    const std::vector<float> x(observation.begin(), observation.end());
    const std::vector<float> q = Layer(w3_, b3_, Relu(Layer(w2_, b2_, Relu(Layer(w1_, b1_, x)))));
    return static_cast<int>(std::max_element(q.begin(), q.end()) - q.begin());
  }

 private:
  static weir::NamedBuffer Into(const char* name, std::vector<float>& values) {
    return {name, values.data(), values.size() * sizeof(float)};
  }
  static std::vector<float> Layer(const std::vector<float>& weights, const std::vector<float>& bias,
                                  const std::vector<float>& x) {
    std::vector<float> y = bias;
    for (size_t i = 0; i < y.size(); ++i) {
      for (size_t j = 0; j < x.size(); ++j) y[i] += weights[i * x.size() + j] * x[j];
    }
    return y;
  }
  static std::vector<float> Relu(std::vector<float> values) {
    for (float& value : values) value = std::max(0.f, value);
    return values;
  }

  weir::Reader& reader_;
  std::vector<float> w1_ = std::vector<float>(kHidden * kObservation);
  std::vector<float> b1_ = std::vector<float>(kHidden);
  std::vector<float> w2_ = std::vector<float>(kHidden * kHidden);
  std::vector<float> b2_ = std::vector<float>(kHidden);
  std::vector<float> w3_ = std::vector<float>(kActions * kHidden);
  std::vector<float> b3_ = std::vector<float>(kActions);
};

// To all learners there are. What cannot be sent is lost: there is more.
class Sender {
 public:
  explicit Sender(std::string folder)
      : folder_(std::move(folder)), socket_(socket(AF_UNIX, SOCK_DGRAM, 0)) {}

  void Send(const std::vector<pendulum::Transition>& transitions) const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      const std::string name = entry.path().filename();
      if (name.rfind("replay-", 0) != 0) continue;
      const sockaddr_un address =
          pendulum::ReplayAddress(folder_, static_cast<unsigned>(std::atoi(name.c_str() + 7)));
      (void)sendto(socket_, transitions.data(), transitions.size() * sizeof(transitions[0]),
                   MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    }
  }

 private:
  const std::string folder_;
  const int socket_;
};

class Actor {
 public:
  Actor(weir::Reader& reader, const std::string& folder, unsigned seed)
      : policy_(reader), sender_(folder), pendulum_(seed) {}

  // Until the job has ended.
  absl::Status Run() {
    // Before anybody learns from it.
    for (size_t i = 0; i < kShown; ++i) {
      if (absl::Status status = Greedy(); !status.ok()) return status;
    }
    std::printf("untrained: mean of %zu greedy returns %.0f\n", kShown, Mean());
    std::fflush(stdout);
    while (true) {
      absl::Status status;
      for (int i = 0; i < kExploring && status.ok(); ++i) status = Play(0.3f).status();
      if (status.ok()) status = Greedy();
      if (!status.ok()) return status;
      std::printf("mean of %zu greedy returns %.0f\n", kShown, Mean());
      std::fflush(stdout);
    }
  }

 private:
  absl::Status Greedy() {
    const absl::StatusOr<float> sum = Play(0);
    if (!sum.ok()) return sum.status();
    returns_.push_back(*sum);
    if (returns_.size() > kShown) returns_.pop_front();
    return absl::OkStatus();
  }

  float Mean() const {
    float sum = 0;
    for (const float value : returns_) sum += value;
    return sum / static_cast<float>(returns_.size());
  }

  // An episode; with so many random steps. The greedy ones are not sent.
  absl::StatusOr<float> Play(float random) {
    pendulum_.Reset();
    float sum = 0;
    std::vector<pendulum::Transition> seen;
    std::uniform_real_distribution<float> uniform;
    for (int step = 0; step < pendulum::kEpisode; ++step) {
      if (step % kSentTogether == 0) {
        if (absl::Status status = policy_.Refresh(); !status.ok()) return status;
      }
      const pendulum::Observation before = pendulum_.observation();
      const bool tries = uniform(pendulum_.random()) < random;
      const int action =
          tries ? static_cast<int>(pendulum_.random()() % kActions) : policy_.Best(before);
      const float reward = pendulum_.Step(action);
      sum += reward;
      seen.push_back({before, static_cast<float>(action), reward, pendulum_.observation()});
      if (random == 0 || seen.size() < kSentTogether) continue;
      sender_.Send(seen);
      seen.clear();
      std::this_thread::sleep_for(kPause);
    }
    return sum;
  }

  Policy policy_;
  Sender sender_;
  pendulum::Pendulum pendulum_;
  std::deque<float> returns_;
};

// The learners may come later.
absl::StatusOr<std::unique_ptr<weir::Reader>> OpenReader(const weir::ReaderOptions& options) {
  for (int second = 0;; ++second) {
    auto reader = weir::Reader::Open(options);
    if (!absl::IsNotFound(reader.status()) || second == 60) return reader;
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    std::fprintf(stderr, "pendulum_actor HOST:PORT JOB FOLDER [SEED]\n");
    return EXIT_FAILURE;
  }
  weir::ReaderOptions options;
  options.coordinator = argv[1];
  options.job = argv[2];
  const auto reader = OpenReader(options);
  absl::Status status = reader.status();
  if (reader.ok()) {
    const unsigned seed = argc == 5 ? static_cast<unsigned>(std::atoi(argv[4])) : 1;
    status = Actor(**reader, argv[3], seed).Run();
  }
  std::printf("pendulum_actor: %s\n", status.ToString().c_str());
  return absl::IsFailedPrecondition(status) ? EXIT_SUCCESS : EXIT_FAILURE;
}
