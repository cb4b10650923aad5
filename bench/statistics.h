// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace weir::bench {

// Of at least one value.
double Median(std::vector<double> values);

// Times of two ways to do the same, taken in turns so that a neighbour's load meets both alike.
// Used from one thread.
class Alternation {
 public:
  void Add(double ours_seconds, double limit_seconds);

  double ours_seconds() const { return Median(ours_); }
  double limit_seconds() const { return Median(limit_); }
  // Median of the pairs' ratios limit / ours: 1 is as fast as the limit.
  double of_limit() const { return Median(ratios_); }

 private:
  std::vector<double> ours_;
  std::vector<double> limit_;
  std::vector<double> ratios_;
};

}  // namespace weir::bench
