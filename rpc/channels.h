// SPDX-License-Identifier: Apache-2.0
// How our programs dial and serve: channel arguments, message limits, credentials.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/server.h>
#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace grpc {
class Service;
}

namespace weir {

// Keep-alive (the pair of StartServer's), quick reconnection with names resolved again, message
// limits.
grpc::ChannelArguments ClientArguments();

// A channel of its own connection to "HOST:PORT" or "unix:PATH"; dials when first used.
// Errors: InvalidArgument - not such an address.
absl::StatusOr<std::shared_ptr<grpc::Channel>> Dial(absl::string_view address);

// OK for "HOST:PORT" with a port of 0 .. 65535 ("[::1]:0" for IPv6), or "unix:PATH".
// Errors: InvalidArgument - names the address and what is wrong.
absl::Status CheckAddress(absl::string_view address);
// Whether only programs of this machine reach it: 127/8, ::1, localhost, a unix socket.
bool IsLoopback(absl::string_view address);

struct ServeOptions {
  std::string listen = "127.0.0.1:0";
  bool insecure_listen = false;               // allows plaintext where others can reach it
  std::vector<grpc::Service*> services = {};  // must outlive the server
  size_t buffer_bytes = size_t{1} << 30;      // bounds what gRPC buffers
};
struct Serving {
  std::string address;  // as listened on, with the true port
  std::unique_ptr<grpc::Server> server;
};

// Serves `services`, health (grpc.health.v1) and reflection.
// Errors: InvalidArgument - the address; FailedPrecondition - plaintext where others can reach it,
// without insecure_listen; Unavailable - the address is in use, or cannot be bound.
absl::StatusOr<Serving> Serve(const ServeOptions& options);

}  // namespace weir
