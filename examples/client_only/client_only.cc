// SPDX-License-Identifier: Apache-2.0
// Fits y = 3 x + 1 on a cluster, with nothing but the client library. Start one or more:
//   client_only HOST:PORT NAME WORKERS      (of the coordinator; of the job; how many to wait for)
#include <cstdlib>
#include <iostream>
#include <random>

#include "weir/job.h"

#define RETURN_IF_BAD(status)                         \
  if (!(status).ok()) {                               \
    std::cerr << "client_only: " << (status) << "\n"; \
    return EXIT_FAILURE;                              \
  }

int main(int argc, char** argv) {
  if (argc != 4) return std::cerr << "client_only HOST:PORT NAME WORKERS\n", EXIT_FAILURE;
  weir::JoinOptions join;
  join.coordinator = argv[1];
  join.name = argv[2];
  join.workers = static_cast<uint32_t>(std::atoi(argv[3]));
  join.timeout = absl::Seconds(5);
  auto job = weir::JoinJob(join);
  RETURN_IF_BAD(job.status());

  weir::OptimizerGroup sgd{"sgd", {}, weir::Sgd{}};
  sgd.learning_rate.base = 0.05;
  weir::Declaration declaration;
  declaration.variables = {{"slope", weir::DType::kFloat32, {}, 1, {}},
                           {"offset", weir::DType::kFloat32, {}, 1, {}}};
  declaration.groups = {sgd};
  RETURN_IF_BAD(job->session->Declare(declaration));

  float weights[2] = {0, 0};
  auto info = job->session->WaitUntilReady(absl::Minutes(1));
  RETURN_IF_BAD(info.status());
  if (info->initialiser) {
    RETURN_IF_BAD(job->parameters->Assign({{0, &weights[0], 4}, {1, &weights[1], 4}}));
    RETURN_IF_BAD(job->session->ReportInitialised());
  }
  const weir::PullItem into[2] = {{0, &weights[0], 4}, {1, &weights[1], 4}};
  RETURN_IF_BAD(job->parameters->Pull(into, {}).status());

  std::mt19937 random(info->rank);
  for (uint64_t step = 0; step < 500; ++step) {
    const float x = static_cast<float>(random() % 1000) / 500 - 1;
    const float error = weights[0] * x + weights[1] - (3 * x + 1);
    const float gradients[2] = {2 * error * x, 2 * error};
    weir::PushOptions push;
    push.step = push.group_step = step;
    push.examples = 1;
    RETURN_IF_BAD(
        job->parameters->PushPull({{0, &gradients[0], 4}, {1, &gradients[1], 4}}, into, push)
            .status());
  }
  std::cout << "slope " << weights[0] << ", offset " << weights[1] << "\n";
  RETURN_IF_BAD(job->session->Leave(/*finished=*/true, ""));
  return EXIT_SUCCESS;
}
