// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace weir {

// For the start of a program: what gRPC logs by itself goes to our log at level debug. Whatever
// matters of it reaches us as a status too.
void RouteGrpcLog();

}  // namespace weir
