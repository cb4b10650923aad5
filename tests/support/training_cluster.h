// SPDX-License-Identifier: Apache-2.0
// Programs that train what one job file says, on a cluster of processes.
#pragma once

#include <gmock/gmock.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/process_cluster.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace weir {

// Of one folder: the job file job.yaml, the run folder "run" of all workers, and what the cluster's
// processes keep, as the checkpoints' manifests in "coordinator".
class TrainingCluster : public ::testing::Test {
 protected:
  void WriteJob(const std::string& text) { std::ofstream(folder_ / "job.yaml") << text; }

  void StartCluster(int servers, absl::Duration lease = absl::Seconds(10)) {
    ProcessCluster::Options options;
    options.servers = servers;
    options.folder = folder_.path();
    options.coordinator_flags = {"--lease-ms", absl::StrCat(absl::ToInt64Milliseconds(lease)),
                                 "--heartbeat-ms", "100"};
    WEIR_ASSERT_OK_AND_ASSIGN(cluster_, ProcessCluster::Start(options));
  }

  // A process `name` of a program with the flags of weir-worker, some of them given; `settings`
  // take the place of the job file's.
  void StartTrainer(const std::string& name, const std::string& program,
                    std::vector<std::string> flags, const std::vector<std::string>& settings) {
    flags.insert(flags.end(), {"--job", folder_ / "job.yaml", "--run-dir", folder_ / "run"});
    for (const std::string& setting : settings) flags.insert(flags.end(), {"--set", setting});
    WEIR_ASSERT_OK(cluster_->StartProgram(name, program, flags));
  }
  std::vector<std::string> OnCluster() const { return {"--coordinator", cluster_->coordinator()}; }

  void AwaitSuccess(const std::string& name, absl::Duration timeout = absl::Minutes(2)) {
    WEIR_ASSERT_OK_AND_ASSIGN(const ExitState ended, cluster_->WaitForExit(name, timeout));
    ASSERT_TRUE(ended.ok()) << name << ": " << ended.ToString() << "\n" << cluster_->Output(name);
  }

  // `weir stop`, to the end of the command.
  void Stop(const std::string& job) {
    WEIR_ASSERT_OK(cluster_->StartProgram("stop", "weir",
                                          {"stop", job, "--coordinator", cluster_->coordinator()}));
    AwaitSuccess("stop");
  }

  TempFolder folder_;
  std::unique_ptr<ProcessCluster> cluster_;
};

}  // namespace weir
