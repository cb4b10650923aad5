// SPDX-License-Identifier: Apache-2.0
#include "rpc/job_state.h"

#include <gmock/gmock.h>

namespace weir {
namespace {

TEST(JobState, WhatHasEndedDoesNotGoOn) {
  for (const auto state : {v1::JOB_STATE_WAITING, v1::JOB_STATE_INITIALISING,
                           v1::JOB_STATE_RESTORING, v1::JOB_STATE_RUNNING}) {
    EXPECT_FALSE(HasEnded(state)) << v1::JobState_Name(state);
  }
  for (const auto state : {v1::JOB_STATE_FINISHED, v1::JOB_STATE_FAILED, v1::JOB_STATE_STOPPED}) {
    EXPECT_TRUE(HasEnded(state)) << v1::JobState_Name(state);
  }
}

TEST(JobState, AnEndIsToldWithItsReason) {
  v1::JobView view;
  view.set_name("r1");
  view.set_state(v1::JOB_STATE_FINISHED);
  EXPECT_EQ(EndOf(view), "job 'r1' has finished");
  view.set_state(v1::JOB_STATE_FAILED);
  view.set_message("no data");
  EXPECT_EQ(EndOf(view), "job 'r1' has failed: no data");
  view.set_state(v1::JOB_STATE_STOPPED);
  view.set_message("stopped by command: `weir stop`");
  EXPECT_EQ(EndOf(view), "job 'r1' was stopped by command: `weir stop`");
}

}  // namespace
}  // namespace weir
