// SPDX-License-Identifier: Apache-2.0
#include "rpc/grpc_log.h"

#include <grpc/support/log.h>
#include <spdlog/spdlog.h>

namespace weir {

void RouteGrpcLog() {
  gpr_set_log_function([](gpr_log_func_args* line) { spdlog::debug("grpc {}", line->message); });
}

}  // namespace weir
