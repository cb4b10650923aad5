// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "weir/v1/parameter_server.pb.h"

namespace weir {

// For messages to people: `AllReduce(SUM) "loss" f32[3]`, `Broadcast(from replica 2) "w" i64[]`;
// with " of 4 replicas" where a process has several.
std::string TextOf(const v1::Collective& collective);

// "collective 2 of step 17"
std::string PlaceText(uint64_t step, uint32_t ordinal);

}  // namespace weir
