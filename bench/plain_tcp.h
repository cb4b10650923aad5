// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace weir::bench {

// A TCP connection over loopback, used with blocking calls and nothing else: the limit that
// transfers are measured against. Used from one thread.
class PlainTcp {
 public:
  // Errors: InvalidArgument - not "HOST:PORT" with a numeric host; Unavailable - nobody listens.
  static absl::StatusOr<PlainTcp> Connect(const std::string& address);

  explicit PlainTcp(int socket);
  PlainTcp(PlainTcp&& other) noexcept;
  PlainTcp(const PlainTcp&) = delete;
  ~PlainTcp();

  // Errors of both: Unavailable - the peer is gone.
  absl::Status Send(const void* data, size_t size, bool more_follows = false);
  absl::Status Receive(void* data, size_t size);

 private:
  int socket_;
};

// What a client asks of the peer: it sends `upload` bytes behind this and gets `download` bytes
// back, or one byte where that is 0.
struct TransferRequest {
  uint64_t upload = 0;
  uint64_t download = 0;
};

// As the client. Errors: Unavailable - the peer is gone.
absl::Status Transfer(PlainTcp& connection, absl::Span<const std::byte> upload,
                      absl::Span<std::byte> download);

// As the peer, until the client goes away: receives into one buffer and sends from another.
void ServeTransfers(PlainTcp& connection);

// Where the peer waits for its client. Used from one thread.
class TcpListener {
 public:
  // On a free port of 127.0.0.1. Errors: Unavailable - the system refused.
  static absl::StatusOr<TcpListener> Create();

  TcpListener(TcpListener&& other) noexcept;
  TcpListener(const TcpListener&) = delete;
  ~TcpListener();

  std::string address() const;
  absl::StatusOr<PlainTcp> Accept();

 private:
  explicit TcpListener(int socket) : socket_(socket) {}
  int socket_;
};

}  // namespace weir::bench
