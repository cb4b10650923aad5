// SPDX-License-Identifier: Apache-2.0
#include "bench/statistics.h"

#include <algorithm>

namespace weir::bench {

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void Alternation::Add(double ours_seconds, double limit_seconds) {
  ours_.push_back(ours_seconds);
  limit_.push_back(limit_seconds);
  ratios_.push_back(limit_seconds / ours_seconds);
}

}  // namespace weir::bench
