// SPDX-License-Identifier: Apache-2.0
#include "common/host_name.h"

#include <unistd.h>

namespace weir {

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

}  // namespace weir
