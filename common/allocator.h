// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace weir {

// For the start of a program that sends and receives large buffers: keeps freed memory in the
// process. By default glibc maps and unmaps each large buffer, and the page faults cost several
// times the copying. Nothing happens under other allocators.
void KeepFreedMemory();

}  // namespace weir
