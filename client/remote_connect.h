// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "rpc/parameter_endpoint.h"
#include "weir/v1/view.pb.h"

namespace weir {

// The endpoint of a server elsewhere. Does not wait for it to be there.
// Errors: InvalidArgument - its address is not HOST:PORT or unix:PATH.
absl::StatusOr<std::shared_ptr<ParameterEndpoint>> ConnectRemotely(const v1::ServerInfo& server);

}  // namespace weir
