// SPDX-License-Identifier: Apache-2.0
#include "client/remote_connect.h"

#include "common/clock.h"
#include "common/status_macros.h"
#include "rpc/channels.h"
#include "rpc/remote_endpoint.h"

namespace weir {

absl::StatusOr<std::shared_ptr<ParameterEndpoint>> ConnectRemotely(const v1::ServerInfo& server) {
  WEIR_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel, Dial(server.address()));
  RemoteEndpoint::Options options;
  options.address = server.address();
  options.clock = &Clock::Real();
  return std::shared_ptr<ParameterEndpoint>(
      std::make_shared<RemoteEndpoint>(std::move(channel), std::move(options)));
}

}  // namespace weir
