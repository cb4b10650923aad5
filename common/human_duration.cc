// SPDX-License-Identifier: Apache-2.0
#include "common/human_duration.h"

#include "absl/strings/str_format.h"

namespace weir {

std::string HumanDuration(absl::Duration duration) {
  const int64_t seconds = absl::ToInt64Seconds(duration + absl::Milliseconds(500));
  if (seconds < 3600) return absl::StrFormat("%d:%02d", seconds / 60, seconds % 60);
  return absl::StrFormat("%d:%02d:%02d", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

}  // namespace weir
