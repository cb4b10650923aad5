// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weir {

// Of this machine, as others may know it; "unknown" where the system does not tell.
std::string HostName();

}  // namespace weir
