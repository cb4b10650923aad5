// SPDX-License-Identifier: Apache-2.0
#include "rpc/outage_log.h"

#include "absl/strings/str_cat.h"
#include "common/human_duration.h"

namespace weir {
namespace {

int64_t WholeSeconds(absl::Duration duration) {
  return absl::ToInt64Seconds(duration);
}

}  // namespace

std::string OutageLog::Fail(const std::string& peer, absl::string_view reason, absl::Time now,
                            absl::Time until) {
  const auto [found, fresh] = outages_.try_emplace(peer, Outage{now, now + kFirst});
  Outage& outage = found->second;
  if (now < outage.tell_at) return "";
  outage.tell_at = now + kEvery;
  outage.told = true;
  return absl::StrCat(
      peer, ": every call has failed for ", WholeSeconds(now - outage.began), " s: ", reason, "; ",
      until == absl::InfiniteFuture() ? "tries on"
                                      : absl::StrCat("gives up in ", HumanDuration(until - now)));
}

std::string OutageLog::Succeed(const std::string& peer, absl::Time now) {
  const auto found = outages_.find(peer);
  if (found == outages_.end()) return "";
  const Outage outage = found->second;
  outages_.erase(found);
  if (!outage.told) return "";
  return absl::StrCat(peer, ": answers again after ", WholeSeconds(now - outage.began), " s");
}

}  // namespace weir
