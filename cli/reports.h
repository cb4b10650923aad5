// SPDX-License-Identifier: Apache-2.0
// What the coordinator answers, as text for people and as JSON for programs.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "absl/status/statusor.h"
#include "cli/local_state.h"
#include "weir/v1/coordinator.pb.h"

namespace weir {

std::string StatusReport(const v1::StatusReply& status);
std::string JobsReport(const v1::ListJobsReply& jobs);
std::string JobReport(const v1::JobStatus& job);  // with its workers
std::string CheckpointsReport(const v1::ListCheckpointsReply& checkpoints);
// What `weir stop` has done.
std::string StopReport(const v1::JobStatus& before, const v1::JobStatus& after);
// Of a run that has ended: that it began at its end. Empty: it did not.
std::string NothingLeftText(const v1::JobStatus& job);
// The processes of `weir local up`.
std::string LocalReport(const LocalState& state);

// The message in protobuf's JSON form, with the field names of the .proto and every scalar written.
// Errors: Internal - it cannot be written.
absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message);

// "running", "waiting", ...; "stopped" for one that has ended by command.
std::string JobStateName(const v1::JobView& view);
// Whether a job in this state has not ended yet.
bool IsLive(v1::JobState state);

}  // namespace weir
