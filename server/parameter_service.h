// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "common/clock.h"
#include "rpc/parameter_endpoint.h"
#include "weir/v1/parameter_server.grpc.pb.h"

namespace weir {

// The data plane over gRPC: decodes, asks the endpoint, encodes. Messages with tensors are raw
// bytes here (rpc/payload_codec.h), so that a tensor is neither parsed nor copied. Thread-safe.
class ParameterService final : public v1::ParameterService::WithRawCallbackMethod_Pull<
                                   v1::ParameterService::WithRawCallbackMethod_Push<
                                       v1::ParameterService::WithRawCallbackMethod_PushPull<
                                           v1::ParameterService::WithRawCallbackMethod_Assign<
                                               v1::ParameterService::WithRawCallbackMethod_Reduce<
                                                   v1::ParameterService::WithCallbackMethod_Hello<
                                                       v1::ParameterService::Service>>>>>> {
 public:
  // Both must outlive the service; the endpoint may answer after the gRPC server is gone.
  ParameterService(ParameterEndpoint& endpoint, const Clock& clock)
      : endpoint_(endpoint), clock_(clock) {}

  grpc::ServerUnaryReactor* Hello(grpc::CallbackServerContext* context,
                                  const v1::HelloRequest* request, v1::HelloReply* reply) override;
  grpc::ServerUnaryReactor* Pull(grpc::CallbackServerContext* context,
                                 const grpc::ByteBuffer* request, grpc::ByteBuffer* reply) override;
  grpc::ServerUnaryReactor* Push(grpc::CallbackServerContext* context,
                                 const grpc::ByteBuffer* request, grpc::ByteBuffer* reply) override;
  grpc::ServerUnaryReactor* PushPull(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* reply) override;
  grpc::ServerUnaryReactor* Assign(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* reply) override;
  grpc::ServerUnaryReactor* Reduce(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* reply) override;

 private:
  absl::Time Deadline(const grpc::CallbackServerContext& context) const;

  ParameterEndpoint& endpoint_;
  const Clock& clock_;
};

}  // namespace weir
