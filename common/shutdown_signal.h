// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace weir {

// The wish that this process ends: SIGTERM, SIGINT, or its own. Create it before any other thread,
// which then inherits that these signals are blocked, and wait for it on the main thread.
// Thread-safe.
class ShutdownSignal {
 public:
  ShutdownSignal();

  // Waits until one is there; returns its number, SIGUSR1 for Request().
  int Wait();
  // Ends Wait(), now or later.
  void Request();

 private:
  sigset_t signals_;
};

}  // namespace weir
