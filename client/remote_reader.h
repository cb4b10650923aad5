// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/routed_parameter_client.h"
#include "client/transfer_engine.h"
#include "common/clock.h"
#include "common/executor.h"
#include "common/mutex.h"
#include "rpc/coordinator_client.h"
#include "weir/reader.h"

namespace weir {

// A Reader over a coordinator's views, which a thread of its own follows. Thread-safe.
class RemoteReader final : public Reader {
 public:
  static absl::StatusOr<std::unique_ptr<RemoteReader>> Open(const ReaderOptions& options,
                                                            const Clock& clock);
  ~RemoteReader() override;

  std::vector<VariableSpec> Variables() const override;
  absl::StatusOr<ReadStats> Pull(absl::Span<const NamedBuffer> into,
                                 const ReadOptions& options) override;

 private:
  struct LastRead {
    absl::Time time;
    uint64_t examples = 0;
  };

  RemoteReader(const ReaderOptions& options, const Clock& clock,
               std::unique_ptr<CoordinatorClient> coordinator);

  absl::Status Start(absl::Time deadline);
  void Follow();
  absl::StatusOr<std::vector<PullItem>> ItemsOf(absl::Span<const NamedBuffer> into) const;
  // Whether what lies in these buffers already is good enough.
  bool IsYoungEnough(absl::Span<const NamedBuffer> into, const ReadOptions& options,
                     ReadStats& stats) const;

  const ReaderOptions options_;
  const Clock& clock_;
  const std::unique_ptr<CoordinatorClient> coordinator_;
  const std::unique_ptr<Executor> executor_;
  const std::shared_ptr<TransferEngine> engine_;
  const std::unique_ptr<RoutedParameterClient> parameters_;
  uint64_t run_id_ = 0;  // constant once started

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<VariableSpec> variables_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, size_t> by_name_ ABSL_GUARDED_BY(mutex_);
  // By variable and buffer.
  std::map<std::pair<std::string, const void*>, LastRead> last_reads_ ABSL_GUARDED_BY(mutex_);
  std::thread views_;
};

}  // namespace weir
