// SPDX-License-Identifier: Apache-2.0
#include "rpc/run_again.h"

#include <gmock/gmock.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

v1::JobView Ended(v1::JobState state) {
  v1::JobView view;
  view.set_name("r1");
  view.set_state(state);
  view.set_message(state == v1::JOB_STATE_STOPPED ? "stopped by command" : "no data");
  return view;
}

TEST(RunAgain, WhatHasACheckpointIsNotForgottenAndBothRemediesAreTold) {
  v1::Manifest newest;
  newest.set_id("00000004-1");
  newest.set_step(231);
  for (const auto& [state, how] : {std::pair(v1::JOB_STATE_FINISHED, "has finished"),
                                   std::pair(v1::JOB_STATE_FAILED, "has failed: no data"),
                                   std::pair(v1::JOB_STATE_STOPPED, "was stopped by command")}) {
    EXPECT_THAT(CheckMayBeForgotten(Ended(state), &newest),
                HasStatus(absl::StatusCode::kFailedPrecondition,
                          absl::StrCat("job 'r1' ", how,
                                       "; go on from checkpoint 00000004-1 at step 231 with "
                                       "resume: auto (`weir run --resume auto`), or begin anew "
                                       "with replace: true (`weir run --replace`)")));
  }
}

TEST(RunAgain, CheckpointsWithoutARecordOfTheirRunAreNotForgotten) {
  v1::Manifest newest;
  newest.set_job("r1");
  newest.set_id("00000004-1");
  newest.set_step(231);
  EXPECT_THAT(CheckMayBeForgotten(newest),
              HasStatus(absl::StatusCode::kFailedPrecondition,
                        "job 'r1' has checkpoints, of a run that is no longer known; go on from "
                        "checkpoint 00000004-1 at step 231 with resume: auto (`weir run --resume "
                        "auto`), or begin anew with replace: true (`weir run --replace`)"));
}

TEST(RunAgain, WithoutACheckpointOnlyWhatHasFailedIsForgotten) {
  WEIR_EXPECT_OK(CheckMayBeForgotten(Ended(v1::JOB_STATE_FAILED), nullptr));
  for (const auto state : {v1::JOB_STATE_FINISHED, v1::JOB_STATE_STOPPED}) {
    EXPECT_THAT(
        CheckMayBeForgotten(Ended(state), nullptr),
        HasStatus(absl::StatusCode::kFailedPrecondition,
                  ::testing::HasSubstr(", and left no checkpoint; begin anew with replace: true "
                                       "(`weir run --replace`)")));
  }
}

}  // namespace
}  // namespace weir
