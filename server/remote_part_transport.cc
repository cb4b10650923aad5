// SPDX-License-Identifier: Apache-2.0
#include "server/remote_part_transport.h"

#include <grpcpp/client_context.h>

#include <memory>

#include "common/grpc_status.h"
#include "common/status_macros.h"
#include "rpc/channels.h"
#include "rpc/deadlines.h"
#include "weir/v1/server_control.grpc.pb.h"

namespace weir {

absl::StatusOr<std::shared_ptr<grpc::Channel>> RemotePartTransport::ChannelTo(
    const std::string& address) {
  MutexLock lock(mutex_);
  std::shared_ptr<grpc::Channel>& channel = channels_[address];
  if (channel == nullptr) {
    WEIR_ASSIGN_OR_RETURN(channel, Dial(address));
  }
  return channel;
}

absl::Status RemotePartTransport::Fetch(const std::string& address,
                                        const v1::FetchPartRequest& request, absl::Time deadline,
                                        PartReader::Consume consume) {
  WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, ChannelTo(address));
  const std::unique_ptr<v1::ServerControl::Stub> stub = v1::ServerControl::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(ToGrpcDeadline(deadline, clock_));
  const std::unique_ptr<grpc::ClientReader<v1::FetchPartReply>> reader =
      stub->FetchPart(&context, request);
  v1::FetchPartReply reply;
  absl::Status consumed;
  while (consumed.ok() && reader->Read(&reply)) {
    consumed = consume(reply.chunk(), reply.record());
  }
  if (!consumed.ok()) context.TryCancel();
  const grpc::Status finished = reader->Finish();
  return consumed.ok() ? FromGrpcStatus(finished) : consumed;
}

}  // namespace weir
