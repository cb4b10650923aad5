// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace weir {

// Stops what this process sends, so that a test finds it in the middle of a message: once armed,
// `bytes` more go out, over all its sockets, then every thread that sends waits, heartbeats
// included, until the process is killed or gets SIGUSR1. Prints "holding after BYTES bytes" when
// the last of them is out. Works by taking the place of sendmsg, for a program that gRPC is linked
// to dynamically. Call it once.
void HoldSendsAfter(uint64_t bytes);

}  // namespace weir
