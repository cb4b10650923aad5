// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/grpc_status.h"
#include "tests/support/call_and_wait.h"

namespace weir {

// The answer of a server's data plane to any bytes whatever as a request of `method`.
inline absl::Status SendRaw(const std::shared_ptr<grpc::Channel>& channel,
                            const std::string& method, const std::string& bytes) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer reply;
  Notification answered;
  grpc::Status result;
  stub.UnaryCall(&context, "/weir.v1.ParameterService/" + method, grpc::StubOptions(), &request,
                 &reply, [&](const grpc::Status& status) {
                   result = status;
                   answered.Notify();
                 });
  answered.WaitFor(absl::InfiniteDuration());
  return FromGrpcStatus(result);
}

}  // namespace weir
