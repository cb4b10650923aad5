// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "rpc/payload.h"

namespace weir {

// One raw unary call: gRPC's reactor, answered once, by whoever comes first: the core, on any
// thread, or the cancellation (the client has gone, its deadline is over, the server shuts down),
// after which a late answer is dropped. Lives as long as gRPC or an answer to come needs it.
// Thread-safe.
class RawCall final : public grpc::ServerUnaryReactor {
 public:
  // `reply` is gRPC's, valid until the call is finished.
  static std::shared_ptr<RawCall> Start(grpc::ByteBuffer* reply);

  void Answer(const google::protobuf::Message& header, Payload payload);
  void Fail(const absl::Status& status);

  void OnCancel() override;
  void OnDone() override;

 private:
  explicit RawCall(grpc::ByteBuffer* reply) : reply_(reply) {}
  // True for the first who asks.
  bool TakeTurn() { return !answered_.exchange(true); }

  grpc::ByteBuffer* const reply_;
  std::atomic<bool> answered_ = false;
  std::shared_ptr<RawCall> self_;  // shared: gRPC's own hold, until OnDone
};

}  // namespace weir
