// SPDX-License-Identifier: Apache-2.0
#include "rpc/coordinator_client.h"

#include <grpcpp/completion_queue.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/grpc_status.h"
#include "common/status_macros.h"
#include "rpc/backoff.h"
#include "rpc/channels.h"
#include "rpc/deadlines.h"

namespace weir {
namespace {

// What gRPC says by itself names nobody.
absl::Status WithAddress(const grpc::Status& status, const std::string& address) {
  const absl::Status plain = FromGrpcStatus(status);
  if (absl::IsUnavailable(plain) || absl::IsCancelled(plain)) {
    return absl::UnavailableError(absl::StrCat("coordinator ", address, ": ", plain.message()));
  }
  if (absl::IsDeadlineExceeded(plain) && plain.message() == "Deadline Exceeded") {
    return absl::DeadlineExceededError(
        absl::StrCat("coordinator ", address, " gave no answer in time"));
  }
  return plain;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorClient>> CoordinatorClient::Create(Options options) {
  WEIR_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel, Dial(options.address));
  return std::unique_ptr<CoordinatorClient>(
      new CoordinatorClient(std::move(options), std::move(channel)));
}

CoordinatorClient::CoordinatorClient(Options options, std::shared_ptr<grpc::Channel> channel)
    : options_(std::move(options)), stub_(v1::CoordinatorService::NewStub(std::move(channel))) {}

CoordinatorClient::~CoordinatorClient() = default;

absl::Status CoordinatorClient::Repeat(absl::Time deadline, const Attempt& attempt) {
  Backoff backoff(*options_.clock, {.seed = NextSeed()});
  while (true) {
    const absl::Status status = Once(deadline, attempt);
    if (!absl::IsUnavailable(status)) return status;
    const absl::Duration wait = backoff.Next();
    if (options_.clock->Now() + wait >= deadline) return status;
    if (!Sleep(wait)) return absl::CancelledError("the connection to the coordinator was closed");
  }
}

absl::Status CoordinatorClient::Once(absl::Time deadline, const Attempt& attempt) {
  grpc::ClientContext context;
  context.set_deadline(ToGrpcDeadline(deadline, *options_.clock));
  return Run(Kind::kUnary, context, attempt);
}

absl::Status CoordinatorClient::Watch(const v1::WatchRequest& request,
                                      const std::function<bool(const v1::WatchEvent&)>& on_event) {
  grpc::ClientContext context;
  return Run(Kind::kWatch, context, [&](grpc::ClientContext& running) {
    const auto reader = stub_->Watch(&running, request);
    v1::WatchEvent event;
    while (reader->Read(&event)) {
      if (!on_event(event)) running.TryCancel();
    }
    const grpc::Status status = reader->Finish();
    return status.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the stream ended") : status;
  });
}

absl::Status CoordinatorClient::Run(Kind kind, grpc::ClientContext& context,
                                    const Attempt& attempt) {
  const auto closed = absl::CancelledError("the connection to the coordinator was closed");
  {
    MutexLock lock(mutex_);
    if (cancelled_) return closed;
    running_.emplace(&context, kind);
  }
  const grpc::Status status = attempt(context);
  MutexLock lock(mutex_);
  running_.erase(&context);
  if (cancelled_ && !status.ok()) return closed;
  if (kind == Kind::kUnary && status.error_code() == grpc::StatusCode::CANCELLED) {
    // Not by us: a coordinator that ends cancels what comes in last.
    return WithAddress(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the coordinator is stopping"),
                       options_.address);
  }
  return WithAddress(status, options_.address);
}

// Neither TryCancel nor an alarm's Cancel blocks or calls back, and the lock keeps them alive.
void CoordinatorClient::EndWatches() {
  MutexLock lock(mutex_);
  for (const auto& [context, kind] : running_) {
    if (kind == Kind::kWatch) context->TryCancel();
  }
}

void CoordinatorClient::Cancel() {
  MutexLock lock(mutex_);
  cancelled_ = true;
  for (const auto& [context, kind] : running_) context->TryCancel();
  for (grpc::Alarm* alarm : sleeping_) alarm->Cancel();
}

// Inside of gRPC, which reads from connections only while a thread is: calls to a coordinator that
// is away fail at once, and between them a new connection would stay half made until it is given
// up, each time anew.
bool CoordinatorClient::Sleep(absl::Duration duration) {
  grpc::CompletionQueue queue;
  grpc::Alarm alarm;
  {
    MutexLock lock(mutex_);
    if (cancelled_) return false;
    alarm.Set(&queue, std::chrono::system_clock::now() + absl::ToChronoMicroseconds(duration),
              nullptr);
    sleeping_.insert(&alarm);
  }
  void* tag = nullptr;
  bool elapsed = false;
  queue.Next(&tag, &elapsed);
  MutexLock lock(mutex_);
  sleeping_.erase(&alarm);
  return !cancelled_;
}

uint64_t CoordinatorClient::NextSeed() {
  MutexLock lock(mutex_);
  return options_.seed + repeated_calls_++;
}

}  // namespace weir
