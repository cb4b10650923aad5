// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/send_hold.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <mutex>
#include <vector>

namespace weir {
namespace {

using SendMessage = ssize_t (*)(int, const msghdr*, int);

std::atomic<bool> armed = false;
std::mutex mutex;    // held by the thread that waits, so that the others wait for it
uint64_t total = 0;  // under `mutex`, like `left`
uint64_t left = 0;
int release_pipe[2];  // SIGUSR1 writes to it

ssize_t SendNow(int socket, const msghdr* message, int flags) {
  static const auto real = reinterpret_cast<SendMessage>(dlsym(RTLD_NEXT, "sendmsg"));
  return real(socket, message, flags);
}

void Release(int) {
  const char any = 0;
  (void)!write(release_pipe[1], &any, 1);
}

// The first `bytes` of a message, without what goes beside them.
ssize_t SendFirst(int socket, const msghdr& message, size_t bytes, int flags) {
  std::vector<iovec> pieces(message.msg_iov, message.msg_iov + message.msg_iovlen);
  size_t kept = 0;
  for (; bytes > 0; ++kept) {
    pieces[kept].iov_len = std::min(pieces[kept].iov_len, bytes);
    bytes -= pieces[kept].iov_len;
  }
  msghdr first = {};
  first.msg_iov = pieces.data();
  first.msg_iovlen = kept;
  return SendNow(socket, &first, flags);
}

ssize_t SendOrHold(int socket, const msghdr* message, int flags) {
  if (!armed) return SendNow(socket, message, flags);
  const std::lock_guard<std::mutex> lock(mutex);
  if (left == 0 && armed) {
    char any = 0;
    (void)!read(release_pipe[0], &any, 1);
    armed = false;
  }
  if (!armed) return SendNow(socket, message, flags);
  size_t size = 0;
  for (size_t i = 0; i < message->msg_iovlen; ++i) size += message->msg_iov[i].iov_len;
  if (size == 0) return SendNow(socket, message, flags);
  const ssize_t sent = SendFirst(socket, *message, std::min<uint64_t>(size, left), flags);
  if (sent <= 0) return sent;
  left -= static_cast<uint64_t>(sent);
  if (left == 0) std::cout << "holding after " << total << " bytes" << std::endl;
  return sent;
}

}  // namespace

void HoldSendsAfter(uint64_t bytes) {
  total = left = bytes;
  (void)!pipe(release_pipe);
  signal(SIGUSR1, Release);
  armed = true;
}

}  // namespace weir

extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  return weir::SendOrHold(socket, message, flags);
}
