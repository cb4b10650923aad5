// SPDX-License-Identifier: Apache-2.0
#include "client/remote_reader.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/declaration_proto.h"
#include "client/job_info.h"
#include "client/remote_connect.h"
#include "common/random_id.h"
#include "common/status_macros.h"

namespace weir {
namespace {

constexpr absl::Duration kReopenPause = absl::Milliseconds(200);
constexpr absl::Duration kExamplesPoll = absl::Milliseconds(50);

std::shared_ptr<TransferEngine> ReadingEngine(const Clock& clock, Executor& executor) {
  TransferEngine::Options options;
  options.worker = WorkerId::kReader;
  options.clock = &clock;
  options.executor = &executor;
  options.seed = RandomId();
  options.connect = ConnectRemotely;
  return TransferEngine::Create(std::move(options));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Reader>> Reader::Open(const ReaderOptions& options) {
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<Reader> reader, RemoteReader::Open(options, Clock::Real()));
  return reader;
}

absl::StatusOr<std::unique_ptr<RemoteReader>> RemoteReader::Open(const ReaderOptions& options,
                                                                 const Clock& clock) {
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<CoordinatorClient> coordinator,
                        CoordinatorClient::Create(
                            {.address = options.coordinator, .clock = &clock, .seed = RandomId()}));
  std::unique_ptr<RemoteReader> reader(new RemoteReader(options, clock, std::move(coordinator)));
  WEIR_RETURN_IF_ERROR(reader->Start(clock.Now() + options.timeout));
  return reader;
}

RemoteReader::RemoteReader(const ReaderOptions& options, const Clock& clock,
                           std::unique_ptr<CoordinatorClient> coordinator)
    : options_(options),
      clock_(clock),
      coordinator_(std::move(coordinator)),
      executor_(Executor::CreatePool(1)),
      engine_(ReadingEngine(clock, *executor_)),
      parameters_(std::make_unique<RoutedParameterClient>(engine_)) {}

RemoteReader::~RemoteReader() {
  coordinator_->Cancel();
  if (views_.joinable()) views_.join();
}

absl::Status RemoteReader::Start(absl::Time deadline) {
  v1::ShowJobRequest request;
  request.set_job(options_.job);
  WEIR_ASSIGN_OR_RETURN(const v1::ShowJobReply reply,
                        coordinator_->Call(&CoordinatorStub::ShowJob, request, deadline));
  const v1::JobView& view = reply.job().view();
  WEIR_RETURN_IF_ERROR(CheckNotEnded(view));
  run_id_ = view.run_id();
  views_ = std::thread([this] { Follow(); });
  MutexLock lock(mutex_);
  while (variables_.empty()) {
    const absl::Duration left = deadline - clock_.Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat("job '", options_.job, "' has declared no variables yet"));
    }
    changed_.WaitFor(mutex_, left);
  }
  return absl::OkStatus();
}

void RemoteReader::Follow() {
  v1::WatchRequest request;
  request.set_run_id(run_id_);
  do {
    // Ends with the stream, which is opened again: a coordinator that is away changes nothing but
    // that views are late.
    (void)coordinator_->Watch(request, [this](const v1::WatchEvent& event) {
      if (!event.has_view()) return true;
      (void)engine_->OnView(std::make_shared<const v1::JobView>(event.view()));
      auto declaration = FromProto(event.view().declaration());
      // Variables that no server holds yet cannot be read.
      if (!declaration.ok() || event.view().shard_map().servers().empty()) return true;
      MutexLock lock(mutex_);
      variables_ = std::move(declaration->variables);
      for (size_t i = 0; i < variables_.size(); ++i) by_name_[variables_[i].name] = i;
      changed_.NotifyAll();
      return true;
    });
  } while (coordinator_->Sleep(kReopenPause));
}

std::vector<VariableSpec> RemoteReader::Variables() const {
  MutexLock lock(mutex_);
  return variables_;
}

absl::StatusOr<std::vector<PullItem>> RemoteReader::ItemsOf(
    absl::Span<const NamedBuffer> into) const {
  std::vector<PullItem> items;
  MutexLock lock(mutex_);
  for (const NamedBuffer& buffer : into) {
    const auto found = by_name_.find(buffer.variable);
    if (found == by_name_.end()) {
      return absl::NotFoundError(
          absl::StrCat("job '", options_.job, "' has no variable '", buffer.variable, "'"));
    }
    items.push_back({found->second, buffer.data, buffer.bytes});
  }
  return items;
}

bool RemoteReader::IsYoungEnough(absl::Span<const NamedBuffer> into, const ReadOptions& options,
                                 ReadStats& stats) const {
  if (options.max_age <= absl::ZeroDuration()) return false;
  const absl::Time oldest = clock_.Now() - options.max_age;
  MutexLock lock(mutex_);
  for (const NamedBuffer& buffer : into) {
    const auto read = last_reads_.find({buffer.variable, buffer.data});
    if (read == last_reads_.end() || read->second.time < oldest ||
        read->second.examples < options.min_examples) {
      return false;
    }
    stats.examples = std::max(stats.examples, read->second.examples);
  }
  return true;
}

absl::StatusOr<ReadStats> RemoteReader::Pull(absl::Span<const NamedBuffer> into,
                                             const ReadOptions& options) {
  ReadStats stats;
  if (IsYoungEnough(into, options, stats)) return stats;
  WEIR_ASSIGN_OR_RETURN(const std::vector<PullItem> items, ItemsOf(into));
  const absl::Time deadline = clock_.Now() + options.timeout;
  while (true) {
    const absl::Time before = clock_.Now();
    PullOptions pull;
    pull.timeout = deadline - before;
    WEIR_ASSIGN_OR_RETURN(const PullStats pulled, parameters_->Pull(items, pull));
    stats = {pulled.examples, stats.bytes + pulled.bytes};
    if (pulled.examples >= options.min_examples) {
      MutexLock lock(mutex_);
      for (const NamedBuffer& buffer : into) {
        last_reads_[{buffer.variable, buffer.data}] = {before, pulled.examples};
      }
      return stats;
    }
    if (clock_.Now() + kExamplesPoll >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat("job '", options_.job, "' has applied ",
                                                      pulled.examples, " examples; ",
                                                      options.min_examples, " were waited for"));
    }
    if (!coordinator_->Sleep(kExamplesPoll)) return absl::CancelledError("the reader is closed");
  }
}

}  // namespace weir
