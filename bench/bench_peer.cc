// SPDX-License-Identifier: Apache-2.0
// The other process of the limits: plain TCP transfers, and a gRPC service whose call does nothing.
// Prints "bench-peer ready tcp=HOST:PORT grpc=HOST:PORT" and serves until it is killed.
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <iostream>

#include "absl/strings/str_cat.h"
#include "bench/plain_tcp.h"
#include "common/allocator.h"
#include "weir/v1/parameter_server.grpc.pb.h"

namespace weir::bench {
namespace {

class EmptyService final : public v1::ParameterService::CallbackService {
  grpc::ServerUnaryReactor* Hello(grpc::CallbackServerContext* context, const v1::HelloRequest*,
                                  v1::HelloReply*) override {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

int Run() {
  EmptyService service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  auto listener = TcpListener::Create();
  if (server == nullptr || !listener.ok()) {
    std::cerr << "bench-peer: cannot listen on 127.0.0.1\n";
    return 1;
  }
  std::cout << "bench-peer ready tcp=" << listener->address()
            << " grpc=" << absl::StrCat("127.0.0.1:", port) << std::endl;
  while (true) {
    auto connection = listener->Accept();
    if (!connection.ok()) return 1;
    ServeTransfers(*connection);
  }
}

}  // namespace
}  // namespace weir::bench

int main() {
  weir::KeepFreedMemory();
  return weir::bench::Run();
}
