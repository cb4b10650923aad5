// SPDX-License-Identifier: Apache-2.0
#include "server/part_saver.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/part_folder.h"
#include "checkpoint/part_writer.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "rpc/errors.h"
#include "server/parameter_store.h"

namespace weir {
namespace {

uint64_t BytesOf(const StoreSnapshot& snapshot) {
  uint64_t bytes = 0;
  for (const ShardSnapshot& shard : snapshot.shards) {
    for (const ChunkSnapshot& chunk : shard.chunks)
      bytes += chunk.weights.size() + chunk.slots.size();
  }
  return bytes;
}

absl::Status Stopped() {
  return absl::UnavailableError("the server is shutting down");
}

absl::Span<const std::byte> SpanOf(const BufferRef& buffer) {
  return absl::MakeConstSpan(buffer.data(), buffer.size());
}

ChunkRecord RecordOf(const ShardSnapshot& shard, uint64_t index, v1::DType dtype) {
  const ChunkSnapshot& chunk = shard.chunks[index];
  const uint64_t first = index * shard.shard.chunk_elements;
  ChunkRecord record;
  record.shard = shard.shard.id;
  record.chunk = index;
  record.dtype = dtype;
  record.initialised = chunk.initialised;
  record.elements = std::min(shard.shard.chunk_elements, shard.shard.elements - first);
  record.version = chunk.version;
  record.examples = chunk.examples;
  record.weights = SpanOf(chunk.weights);
  if (chunk.slots) {
    record.slot_count = chunk.num_slots;
    record.slot_stride_bytes = chunk.slot_stride_bytes;
    record.slots = SpanOf(chunk.slots);
  }
  return record;
}

}  // namespace

// Job folders in which a part is being written: there is one `live` database in each. Thread-safe.
class PartSaver::BusyFolders {
 public:
  bool Take(const std::string& folder) {
    MutexLock lock(mutex_);
    return folders_.insert(folder).second;
  }
  void Release(const std::string& folder) {
    MutexLock lock(mutex_);
    folders_.erase(folder);
  }

 private:
  Mutex mutex_;
  absl::flat_hash_set<std::string> folders_ ABSL_GUARDED_BY(mutex_);
};

// One part being written, task by task; each task owns it. Used from one thread at a time.
class PartSaver::Saving : public std::enable_shared_from_this<PartSaver::Saving> {
 public:
  // What is asked for, and who is told.
  struct Order {
    Cut cut;
    v1::SavePartRequest request;
    absl::Time deadline;
    Done done;
  };

  Saving(const Options& options, std::shared_ptr<BusyFolders> busy, Order order)
      : options_(options),
        busy_(std::move(busy)),
        cut_(std::move(order.cut)),
        request_(std::move(order.request)),
        deadline_(order.deadline),
        done_(std::move(order.done)) {}

  // The executor was stopped before the part was finished.
  ~Saving() {
    if (done_ != nullptr) Answer(Stopped());
  }

  static void Start(const Options& options, std::shared_ptr<BusyFolders> busy, Order order) {
    std::vector<ShardSnapshot>& shards = order.cut.snapshot.shards;
    std::sort(shards.begin(), shards.end(), [](const ShardSnapshot& a, const ShardSnapshot& b) {
      return a.shard.id < b.shard.id;
    });
    std::make_shared<Saving>(options, std::move(busy), std::move(order))->Start();
  }

 private:
  void Start() {
    absl::StatusOr<PartFolder> folder = PartFolder::Parse(options_.root, request_.directory());
    if (folder.ok() && folder->id != request_.checkpoint_id()) {
      folder = absl::InvalidArgumentError(
          absl::StrCat(request_.directory(), " is no folder of ", request_.checkpoint_id()));
    }
    if (!folder.ok()) return Answer(folder.status());
    if (!busy_->Take(folder->job_folder)) {
      return Answer(absl::AbortedError(
          absl::StrCat("another part is being written in ", folder->job_folder)));
    }
    taken_ = folder->job_folder;
    options_.executor->Run([self = shared_from_this()] { self->Begin(); });
  }

  void Begin() {
    started_ = options_.clock->Now();
    absl::StatusOr<std::unique_ptr<PartWriter>> writer =
        PartWriter::Create({.files = options_.files,
                            .root = options_.root,
                            .directory = request_.directory(),
                            .expected_bytes = BytesOf(cut_.snapshot)});
    if (!writer.ok()) return Answer(writer.status());
    writer_ = *std::move(writer);
    WriteSlice();
  }

  void WriteSlice() {
    if (options_.clock->Now() >= deadline_) {
      return Answer(absl::DeadlineExceededError(
          absl::StrCat("the part of ", request_.checkpoint_id(),
                       " was not written in time: ", writer_->bytes_written(), " bytes are")));
    }
    if (options_.stopping != nullptr && *options_.stopping) return Answer(Stopped());
    const uint64_t until = writer_->bytes_written() + options_.slice_bytes;
    while (writer_->bytes_written() < until && shard_ < cut_.snapshot.shards.size()) {
      const absl::Status written = WriteChunk();
      if (!written.ok()) return Answer(written);
    }
    if (shard_ == cut_.snapshot.shards.size()) return Finish();
    options_.executor->RunAfter(Pause(), [self = shared_from_this()] { self->WriteSlice(); });
  }

  absl::Status WriteChunk() {
    ShardSnapshot& shard = cut_.snapshot.shards[shard_];
    if (chunk_ < shard.chunks.size()) {
      const uint64_t variable = static_cast<uint64_t>(shard.shard.variable);
      WEIR_RETURN_IF_ERROR(writer_->Add(RecordOf(shard, chunk_, cut_.dtypes.at(variable))));
      // From here on the store may update this chunk in place again.
      shard.chunks[chunk_] = {};
      ++chunk_;
    }
    if (chunk_ == shard.chunks.size()) {
      ++shard_;
      chunk_ = 0;
    }
    return absl::OkStatus();
  }

  absl::Duration Pause() const {
    if (options_.bytes_per_second == 0) return absl::ZeroDuration();
    const absl::Time due = started_ + absl::Seconds(static_cast<double>(writer_->bytes_written()) /
                                                    static_cast<double>(options_.bytes_per_second));
    return std::max(absl::ZeroDuration(), due - options_.clock->Now());
  }

  void Finish() {
    absl::StatusOr<v1::CheckpointPart> part = writer_->Finish();
    if (!part.ok()) return Answer(part.status());
    const StoreSnapshot& snapshot = cut_.snapshot;
    part->set_server(options_.server);
    part->set_cut(request_.cut());
    part->set_attempt(snapshot.attempt);
    part->set_step(snapshot.step);
    part->set_examples(snapshot.examples);
    part->mutable_group_steps()->Add(snapshot.group_steps.begin(), snapshot.group_steps.end());
    for (const v1::SequenceMark& mark : snapshot.marks) *part->add_marks() = mark;
    spdlog::info("part saved checkpoint={} bytes={} seconds={:.2f}", request_.checkpoint_id(),
                 writer_->bytes_written(), absl::ToDoubleSeconds(options_.clock->Now() - started_));
    v1::SavePartReply reply;
    *reply.mutable_part() = *std::move(part);
    Answer(std::move(reply));
  }

  // Removes an unfinished part and frees the folder before anybody hears of it, so that the next
  // try finds it free.
  void Answer(absl::StatusOr<v1::SavePartReply> reply) {
    writer_.reset();
    cut_.snapshot = {};  // and what it has reserved of the memory limit
    if (!taken_.empty()) busy_->Release(std::exchange(taken_, {}));
    std::exchange(done_, nullptr)(std::move(reply));
  }

  const Options options_;
  const std::shared_ptr<BusyFolders> busy_;
  Cut cut_;
  const v1::SavePartRequest request_;
  const absl::Time deadline_;
  Done done_;  // null: answered
  std::string taken_;
  absl::Time started_;
  std::unique_ptr<PartWriter> writer_;
  size_t shard_ = 0;  // the next chunk to write
  size_t chunk_ = 0;
};

PartSaver::PartSaver(Options options)
    : options_(std::move(options)), busy_(std::make_shared<BusyFolders>()) {}

PartSaver::~PartSaver() = default;

void PartSaver::Save(ParameterServer& server, const v1::SavePartRequest& request,
                     absl::Time deadline, Done done) {
  absl::StatusOr<std::shared_ptr<ParameterStore>> store = server.Store(request.run_id());
  if (!store.ok()) return std::move(done)(store.status());
  if ((*store)->attempt() != request.attempt()) {
    return std::move(done)(StaleAttempt(request.attempt(), (*store)->attempt()));
  }
  std::vector<v1::DType> dtypes;
  for (const VariablePlan& variable : (*store)->plan().variables())
    dtypes.push_back(variable.dtype);
  CutRequest cut{.cut = request.cut(), .marks = {request.marks().begin(), request.marks().end()}};
  (*store)->TakeCut(
      cut, deadline,
      [options = options_, busy = busy_, dtypes = std::move(dtypes), request, deadline,
       done = std::move(done)](absl::StatusOr<StoreSnapshot> snapshot) mutable {
        if (!snapshot.ok()) return std::move(done)(snapshot.status());
        Saving::Start(options, std::move(busy),
                      {.cut = {*std::move(snapshot), std::move(dtypes)},
                       .request = std::move(request),
                       .deadline = deadline,
                       .done = std::move(done)});
      });
}

void PartSaver::Write(Cut cut, const v1::SavePartRequest& request, absl::Time deadline, Done done) {
  Saving::Start(
      options_, busy_,
      {.cut = std::move(cut), .request = request, .deadline = deadline, .done = std::move(done)});
}

absl::Status PartSaver::Drop(const v1::DropPartRequest& request) {
  WEIR_ASSIGN_OR_RETURN(const PartFolder folder,
                        PartFolder::Parse(options_.root, request.directory()));
  if (!busy_->Take(folder.job_folder)) {
    return absl::AbortedError(
        absl::StrCat("a part is being written in ", folder.job_folder, "; ask again"));
  }
  const absl::Status dropped = DropPart(*options_.files, options_.root, request.directory());
  busy_->Release(folder.job_folder);
  return dropped;
}

}  // namespace weir
