// SPDX-License-Identifier: Apache-2.0
// The newest transitions that actors have sent to a learner, over a datagram socket of this
// machine: FOLDER/replay-ID.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "examples/pendulum/pendulum.h"
#include "weir/stop_token.h"

namespace pendulum {

inline sockaddr_un ReplayAddress(const std::string& folder, unsigned id) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = folder + "/replay-" + std::to_string(id);
  if (path.size() >= sizeof(address.sun_path)) {
    throw std::runtime_error(path + ": too long for the name of a socket");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// What actors have sent, the newest 20,000 steps, received on a thread of its own. Thread-safe.
class Replay {
 public:
  Replay(const std::string& folder, unsigned id, unsigned seed) : random_(seed) {
    const sockaddr_un address = ReplayAddress(folder, id);
    unlink(address.sun_path);  // of a learner that died
    socket_ = socket(AF_UNIX, SOCK_DGRAM, 0);
    const timeval poll = {0, 100000};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &poll, sizeof(poll));
    if (bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      const std::string why = std::strerror(errno);
      close(socket_);
      throw std::runtime_error(std::string(address.sun_path) + ": " + why);
    }
    thread_ = std::thread([this] { Receive(); });
  }
  ~Replay() {
    stop_.RequestStop();
    thread_.join();
    close(socket_);
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  // Waits until there are enough to choose from. Fewer than `count`: it was stopped.
  std::vector<Transition> Sample(size_t count, const weir::StopToken& stop) {
    while (Size() < kEnough) {
      if (stop.WaitFor(std::chrono::milliseconds(20))) return {};
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<Transition> sample;
    for (size_t i = 0; i < count; ++i) sample.push_back(kept_[random_() % kept_.size()]);
    return sample;
  }

 private:
  static constexpr size_t kEnough = 1000;
  static constexpr size_t kMost = 20000;

  size_t Size() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return kept_.size();
  }

  void Receive() {
    std::vector<Transition> received(1000);
    while (!stop_.token().stop_requested()) {
      const ssize_t bytes = recv(socket_, received.data(), received.size() * sizeof(Transition), 0);
      const std::lock_guard<std::mutex> lock(mutex_);
      for (size_t i = 0; bytes > 0 && i < static_cast<size_t>(bytes) / sizeof(Transition); ++i) {
        if (kept_.size() < kMost) {
          kept_.push_back(received[i]);
        } else {
          kept_[oldest_++ % kMost] = received[i];
        }
      }
    }
  }

  weir::StopSource stop_;
  int socket_ = -1;
  std::mutex mutex_;
  std::mt19937 random_;
  std::vector<Transition> kept_;
  size_t oldest_ = 0;
  std::thread thread_;
};

}  // namespace pendulum
