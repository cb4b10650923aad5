// SPDX-License-Identifier: Apache-2.0
// Fits y = 3 x + 1 on a cluster, with nothing but the client library. Start one or more:
//   client_only HOST:PORT NAME WORKERS      (of the coordinator; of the job; how many to wait for)
#include <cstdlib>
#include <iostream>

#include "weir/job.h"

#define RETURN_IF_BAD(status) \
  if (const absl::Status bad = (status); !bad.ok()) return bad

// From what the job's servers hold to the last step.
absl::Status Train(weir::Job& job) {
  float weights[2] = {0, 0};
  const auto info = job.session->WaitUntilReady(absl::Minutes(1));
  RETURN_IF_BAD(info.status());
  if (info->initialiser) {
    RETURN_IF_BAD(job.parameters->Assign({{0, &weights[0], 4}, {1, &weights[1], 4}}));
    RETURN_IF_BAD(job.session->ReportInitialised());
  }
  const weir::PullItem into[2] = {{0, &weights[0], 4}, {1, &weights[1], 4}};
  RETURN_IF_BAD(job.parameters->Pull(into, {}).status());
  for (uint64_t step = info->resume_step; step < 500; ++step) {
    const float x = static_cast<float>((step * 617 + info->rank * 211) % 1000) / 500 - 1;
    const float error = weights[0] * x + weights[1] - (3 * x + 1);
    const float gradients[2] = {2 * error * x, 2 * error};
    weir::PushOptions push;
    push.step = push.group_step = step;
    push.examples = 1;
    const weir::PushItem items[2] = {{0, &gradients[0], 4}, {1, &gradients[1], 4}};
    RETURN_IF_BAD(job.parameters->PushPull(items, into, push).status());
  }
  std::cout << "slope " << weights[0] << ", offset " << weights[1] << "\n";
  return job.session->Leave(/*finished=*/true, "");
}

absl::Status Run(const weir::JoinOptions& join) {
  auto job = weir::JoinJob(join);
  RETURN_IF_BAD(job.status());
  weir::Declaration declaration;
  declaration.variables = {{"slope", weir::DType::kFloat32, {}, 1, {}},
                           {"offset", weir::DType::kFloat32, {}, 1, {}}};
  declaration.groups = {{"sgd", {}, weir::Sgd{}}};
  declaration.groups[0].learning_rate.base = 0.05;
  RETURN_IF_BAD(job->session->Declare(declaration));
  absl::Status status = Train(*job);  // Aborted: a server was lost, the job was rolled back
  while (absl::IsAborted(status) && job->session->Info().member) status = Train(*job);
  return status;
}

int main(int argc, char** argv) {
  if (argc != 4) return std::cerr << "client_only HOST:PORT NAME WORKERS\n", EXIT_FAILURE;
  weir::JoinOptions join;
  join.coordinator = argv[1];
  join.name = argv[2];
  join.workers = static_cast<uint32_t>(std::atoi(argv[3]));
  join.timeout = absl::Seconds(5);
  const absl::Status status = Run(join);
  if (status.ok()) return EXIT_SUCCESS;
  return std::cerr << "client_only: " << status << "\n", EXIT_FAILURE;
}
