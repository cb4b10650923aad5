// SPDX-License-Identifier: Apache-2.0
#include "common/shutdown_signal.h"

#include <unistd.h>

#include <initializer_list>

namespace weir {

ShutdownSignal::ShutdownSignal() {
  sigemptyset(&signals_);
  for (int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&signals_, signal);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
}

int ShutdownSignal::Wait() {
  int signal = 0;
  while (sigwait(&signals_, &signal) != 0) {
  }
  return signal;
}

// Blocked everywhere, so it stays pending until somebody waits.
void ShutdownSignal::Request() {
  kill(getpid(), SIGUSR1);
}

}  // namespace weir
