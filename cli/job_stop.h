// SPDX-License-Identifier: Apache-2.0
// What a run says and does when its job is stopped before its end.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "cli/job_run.h"
#include "weir/v1/coordinator.pb.h"

namespace weir {

// Whether the job is being trained, not stopped yet, and one of these processes of this machine is
// a worker of it: another run's job of the same name is not ours to stop.
bool IsOursToStop(const v1::JobStatus& job, const std::vector<pid_t>& workers);

// "weir run job.yaml --own-cluster --resume auto": goes on where the run has ended.
std::string GoOnCommand(const JobRun::Options& options, bool own_cluster);

// That the job was stopped, which checkpoint is its newest (without an id: none), and the command
// that goes on from it.
std::string StoppedText(const v1::Manifest& newest, const std::string& command);

}  // namespace weir
