// SPDX-License-Identifier: Apache-2.0
#include "rpc/channels.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "rpc/protocol.h"

namespace weir {
namespace {

constexpr int kKeepAliveMs = 20'000;
constexpr int kKeepAliveTimeoutMs = 10'000;
constexpr absl::string_view kUnix = "unix:";

struct HostAndPort {
  absl::string_view host;
  int port = 0;
};

absl::StatusOr<HostAndPort> Split(absl::string_view address) {
  const size_t colon = address.rfind(':');
  HostAndPort parts;
  const bool has_port = colon != absl::string_view::npos &&
                        absl::SimpleAtoi(address.substr(colon + 1), &parts.port) &&
                        parts.port >= 0 && parts.port <= 65535;
  if (!has_port || colon == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", address,
                     "' is no address: HOST:PORT with a port of 0 to 65535 is, as 127.0.0.1:4660"));
  }
  parts.host = address.substr(0, colon);
  if (absl::ConsumePrefix(&parts.host, "[") && absl::ConsumeSuffix(&parts.host, "]")) return parts;
  if (absl::StrContains(parts.host, ':')) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", address, "' is no address: write an IPv6 host in brackets, as [::1]:4660"));
  }
  return parts;
}

// Both ends of a connection: a peer may ping as often as the other pings.
template <typename Set>
void SetShared(Set set) {
  set(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepAliveMs);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepAliveTimeoutMs);
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  set(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, static_cast<int>(kMaxMessageBytes));
  set(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, static_cast<int>(kMaxMessageBytes));
}

}  // namespace

absl::Status CheckAddress(absl::string_view address) {
  if (absl::StartsWith(address, kUnix)) return absl::OkStatus();
  return Split(address).status();
}

bool IsLoopback(absl::string_view address) {
  if (absl::StartsWith(address, kUnix)) return true;
  const absl::StatusOr<HostAndPort> parts = Split(address);
  return parts.ok() && (absl::StartsWith(parts->host, "127.") || parts->host == "::1" ||
                        parts->host == "localhost");
}

grpc::ChannelArguments ClientArguments() {
  grpc::ChannelArguments arguments;
  SetShared([&](const char* name, int value) { arguments.SetInt(name, value); });
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 3'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1'000);
  // Retries are ours: they carry sequences, and know which answers a retry can cure.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Dial(absl::string_view address) {
  WEIR_RETURN_IF_ERROR(CheckAddress(address));
  return grpc::CreateCustomChannel(std::string(address), grpc::InsecureChannelCredentials(),
                                   ClientArguments());
}

absl::StatusOr<Serving> Serve(const ServeOptions& options) {
  WEIR_RETURN_IF_ERROR(CheckAddress(options.listen));
  if (!IsLoopback(options.listen) && !options.insecure_listen) {
    return absl::FailedPreconditionError(
        absl::StrCat("refusing to serve in plaintext on ", options.listen,
                     ", where others can reach it: listen on 127.0.0.1, or say --insecure-listen"));
  }
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetShared([&](const char* name, int value) { builder.AddChannelArgument(name, value); });
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kKeepAliveMs / 2);
  // Else two servers that are given one port share it in silence.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetResourceQuota(grpc::ResourceQuota("weir").Resize(options.buffer_bytes));
  int port = 0;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port);
  for (grpc::Service* service : options.services) builder.RegisterService(service);
  Serving serving{options.listen, builder.BuildAndStart()};
  if (serving.server == nullptr || port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", options.listen,
                     ": the port is in use, or the address is not this machine's (see ss -ltnp)"));
  }
  if (!absl::StartsWith(options.listen, kUnix)) {
    const size_t colon = options.listen.rfind(':');
    serving.address = absl::StrCat(options.listen.substr(0, colon), ":", port);
  }
  return serving;
}

}  // namespace weir
