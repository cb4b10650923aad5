// SPDX-License-Identifier: Apache-2.0
#include "client/job_info.h"

#include <algorithm>
#include <set>

#include "rpc/job_state.h"

namespace weir {

JobInfo InfoOf(const v1::JobView& view, WorkerId worker) {
  JobInfo info;
  info.run_id = view.run_id();
  info.attempt = view.attempt();
  info.generation = view.generation();
  if (v1::JobState_IsValid(view.state()) && view.state() != v1::JOB_STATE_UNSPECIFIED) {
    info.state = static_cast<JobState>(view.state());
  }
  info.message = view.message();
  info.stop_step = view.stop_step();
  for (const v1::Member& member : view.members()) {
    info.members.push_back({member.rank(), member.first_step(), member.sync_group()});
    if (WorkerId{member.worker()} != worker) continue;
    info.member = true;
    info.rank = member.rank();
    info.stop_step = std::max(info.stop_step, member.stop_step());
  }
  const auto& holders = view.shard_map().server_of_shard();
  info.servers = static_cast<uint32_t>(std::set<uint32_t>(holders.begin(), holders.end()).size());
  info.initialiser = worker != WorkerId::kReader && WorkerId{view.initialiser()} == worker;
  info.stop = view.stop();
  info.checkpoint_id = view.resume().checkpoint_id();
  info.resume_step = view.resume().step();
  info.resume_examples = view.resume().examples();
  info.resume_group_steps = {view.resume().group_steps().begin(),
                             view.resume().group_steps().end()};
  info.lost_steps = view.resume().lost_steps();
  return info;
}

absl::Status CheckNotEnded(const v1::JobView& view) {
  return HasEnded(view.state()) ? absl::FailedPreconditionError(EndOf(view)) : absl::OkStatus();
}

bool IsReady(const JobInfo& info) {
  if (!info.member) return false;
  return info.state == JobState::kRunning ||
         (info.state == JobState::kInitialising && info.initialiser);
}

}  // namespace weir
