// SPDX-License-Identifier: Apache-2.0
// The clients that a contract suite runs over: an object in this process, and one or three servers,
// as objects or over gRPC.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "absl/status/statusor.h"
#include "common/status_macros.h"
#include "tests/support/hand_made_job.h"
#include "worker/embedded/local_job.h"

namespace weir {

enum class ClientKind { kEmbedded, kOneServer, kThreeServers, kOneOverGrpc, kThreeOverGrpc };

inline std::string NameOfKind(const ::testing::TestParamInfo<ClientKind>& info) {
  switch (info.param) {
    case ClientKind::kEmbedded:
      return "Embedded";
    case ClientKind::kOneServer:
      return "OneServer";
    case ClientKind::kThreeServers:
      return "ThreeServers";
    case ClientKind::kOneOverGrpc:
      return "OneServerOverGrpc";
    case ClientKind::kThreeOverGrpc:
      return "ThreeServersOverGrpc";
  }
  return "";
}

inline auto EveryServedClient() {
  return ::testing::Values(ClientKind::kOneServer, ClientKind::kThreeServers,
                           ClientKind::kOneOverGrpc, ClientKind::kThreeOverGrpc);
}
inline auto EveryClient() {
  return ::testing::Values(ClientKind::kEmbedded, ClientKind::kOneServer, ClientKind::kThreeServers,
                           ClientKind::kOneOverGrpc, ClientKind::kThreeOverGrpc);
}

// Options of a job behind any but the embedded one.
inline HandMadeJob::Options ServedBy(ClientKind kind, const Declaration& declaration) {
  HandMadeJob::Options options;
  options.declaration = declaration;
  options.servers = kind == ClientKind::kThreeServers || kind == ClientKind::kThreeOverGrpc ? 3 : 1;
  options.over_grpc = kind == ClientKind::kOneOverGrpc || kind == ClientKind::kThreeOverGrpc;
  return options;
}

// The embedded one, of a job that waits for its initial values.
inline absl::StatusOr<Job> OpenEmbedded(LocalJobOptions options, const Declaration& declaration) {
  options.spec.set_name("embedded");
  WEIR_ASSIGN_OR_RETURN(Job job, OpenLocalJob(options));
  WEIR_RETURN_IF_ERROR(job.session->Declare(declaration));
  WEIR_RETURN_IF_ERROR(job.session->WaitUntilReady(absl::Seconds(10)).status());
  return job;
}

}  // namespace weir
