// SPDX-License-Identifier: Apache-2.0
#include "bench/plain_tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"

namespace weir::bench {
namespace {

absl::Status Failure(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

sockaddr* Generic(sockaddr_in& address) {
  return reinterpret_cast<sockaddr*>(&address);
}

}  // namespace

PlainTcp::PlainTcp(int socket) : socket_(socket) {
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}
PlainTcp::PlainTcp(PlainTcp&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
PlainTcp::~PlainTcp() {
  if (socket_ >= 0) close(socket_);
}

absl::StatusOr<PlainTcp> PlainTcp::Connect(const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in peer = {};
  peer.sin_family = AF_INET;
  int port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      inet_pton(AF_INET, address.substr(0, colon).c_str(), &peer.sin_addr) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("not an address: ", address));
  }
  peer.sin_port = htons(static_cast<uint16_t>(port));
  PlainTcp connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(connection.socket_, Generic(peer), sizeof peer) != 0) return Failure(address);
  return connection;
}

absl::Status PlainTcp::Send(const void* data, size_t size, bool more_follows) {
  const auto* at = static_cast<const std::byte*>(data);
  const int flags = MSG_NOSIGNAL | (more_follows ? MSG_MORE : 0);
  while (size > 0) {
    const ssize_t sent = send(socket_, at, size, flags);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return Failure("send");
    at += sent;
    size -= static_cast<size_t>(sent);
  }
  return absl::OkStatus();
}

absl::Status PlainTcp::Receive(void* data, size_t size) {
  auto* at = static_cast<std::byte*>(data);
  while (size > 0) {
    const ssize_t received = recv(socket_, at, size, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received == 0) return absl::UnavailableError("the peer closed the connection");
    if (received < 0) return Failure("recv");
    at += received;
    size -= static_cast<size_t>(received);
  }
  return absl::OkStatus();
}

absl::Status Transfer(PlainTcp& connection, absl::Span<const std::byte> upload,
                      absl::Span<std::byte> download) {
  const TransferRequest request = {.upload = upload.size(), .download = download.size()};
  WEIR_RETURN_IF_ERROR(connection.Send(&request, sizeof request, !upload.empty()));
  WEIR_RETURN_IF_ERROR(connection.Send(upload.data(), upload.size()));
  if (!download.empty()) return connection.Receive(download.data(), download.size());
  std::byte acknowledgement;
  return connection.Receive(&acknowledgement, 1);
}

void ServeTransfers(PlainTcp& connection) {
  std::vector<std::byte> received;
  std::vector<std::byte> sent;
  TransferRequest request;
  while (connection.Receive(&request, sizeof request).ok()) {
    if (received.size() < request.upload) received.resize(request.upload);
    if (sent.size() < request.download + 1) sent.resize(request.download + 1);
    if (!connection.Receive(received.data(), request.upload).ok()) return;
    const size_t answer = request.download == 0 ? 1 : request.download;
    if (!connection.Send(sent.data(), answer).ok()) return;
  }
}

absl::StatusOr<TcpListener> TcpListener::Create() {
  TcpListener listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener.socket_, Generic(address), sizeof address) != 0) return Failure("bind");
  if (listen(listener.socket_, 8) != 0) return Failure("listen");
  return listener;
}

TcpListener::TcpListener(TcpListener&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)) {}
TcpListener::~TcpListener() {
  if (socket_ >= 0) close(socket_);
}

std::string TcpListener::address() const {
  sockaddr_in address = {};
  socklen_t size = sizeof address;
  getsockname(socket_, Generic(address), &size);
  return absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
}

absl::StatusOr<PlainTcp> TcpListener::Accept() {
  const int connection = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
  if (connection < 0) return Failure("accept");
  return PlainTcp(connection);
}

}  // namespace weir::bench
