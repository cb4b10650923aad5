// SPDX-License-Identifier: Apache-2.0
// The pendulum that is to be swung up and kept there by a weak motor (Sutton and Barto; the
// constants are those of OpenAI Gym's Pendulum-v1, with five torques to choose from).
#pragma once

#include <array>
#include <cmath>
#include <random>

namespace pendulum {

constexpr int kObservation = 3;  // cosine and sine of the angle (0: upright), and the speed / 8
constexpr int kActions = 5;
constexpr int kHidden = 64;
constexpr int kEpisode = 200;  // steps

using Observation = std::array<float, kObservation>;

// One step of an actor, as it is sent to a learner.
struct Transition {
  Observation before;
  float action = 0;
  float reward = 0;  // at most 0: upright, still, and without torque
  Observation after;
};

// A rod on a motor that is too weak to lift it at once. Used from one thread.
class Pendulum {
 public:
  explicit Pendulum(unsigned seed) : random_(seed) { Reset(); }

  void Reset() {
    angle_ = std::uniform_real_distribution<float>(-kPi, kPi)(random_);
    speed_ = std::uniform_real_distribution<float>(-1, 1)(random_);
  }

  Observation observation() const { return {std::cos(angle_), std::sin(angle_), speed_ / 8}; }

  // Gives the reward.
  float Step(int action) {
    const float torque = static_cast<float>(action - kActions / 2);
    const float off = std::remainder(angle_, 2 * kPi);
    const float cost = off * off + 0.1f * speed_ * speed_ + 0.001f * torque * torque;
    speed_ += (15 * std::sin(angle_) + 3 * torque) * 0.05f;
    speed_ = std::fmin(8.f, std::fmax(-8.f, speed_));
    angle_ += speed_ * 0.05f;
    return -cost;
  }

  std::mt19937& random() { return random_; }

 private:
  static constexpr float kPi = 3.14159265f;

  std::mt19937 random_;
  float angle_ = 0;
  float speed_ = 0;
};

}  // namespace pendulum
