// SPDX-License-Identifier: Apache-2.0
#include "rpc/protocol.h"

namespace weir {

const char kBuild[] = "weir " WEIR_VERSION;

}  // namespace weir
