// SPDX-License-Identifier: Apache-2.0
#include "server/raw_call.h"

#include <utility>

#include "common/grpc_status.h"
#include "rpc/payload_codec.h"

namespace weir {

std::shared_ptr<RawCall> RawCall::Start(grpc::ByteBuffer* reply) {
  std::shared_ptr<RawCall> call(new RawCall(reply));
  call->self_ = call;
  return call;
}

void RawCall::Answer(const google::protobuf::Message& header, Payload payload) {
  if (!TakeTurn()) return;
  absl::StatusOr<grpc::ByteBuffer> message = EncodeMessage(header, std::move(payload));
  if (message.ok()) {
    reply_->Swap(&*message);
    Finish(grpc::Status::OK);
  } else {
    Finish(ToGrpcStatus(message.status()));
  }
}

void RawCall::Fail(const absl::Status& status) {
  if (TakeTurn()) Finish(ToGrpcStatus(status));
}

void RawCall::OnCancel() {
  if (TakeTurn()) Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the call was cancelled"));
}

void RawCall::OnDone() {
  const std::shared_ptr<RawCall> last = std::move(self_);
}

}  // namespace weir
