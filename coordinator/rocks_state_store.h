// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/state_store.h"

namespace rocksdb {
class DB;
class Env;
}  // namespace rocksdb

namespace weir {

// In RocksDB, with a write-ahead log that is synced by each Write. Thread-safe.
class RocksStateStore final : public StateStore {
 public:
  // Creates `folder` where there is none. `env`, which must outlive the store, has the files;
  // nullptr: the system's.
  // Errors: FailedPrecondition - another process has it open; DataLoss - damaged; Unavailable - the
  // disk. All name the folder.
  static absl::StatusOr<std::unique_ptr<RocksStateStore>> Open(const std::string& folder,
                                                               rocksdb::Env* env = nullptr);
  ~RocksStateStore() override;

  absl::StatusOr<std::map<std::string, std::string>> Load() override;
  absl::Status Write(const StateChanges& changes) override;

 private:
  RocksStateStore(std::string folder, std::unique_ptr<rocksdb::DB> db);

  const std::string folder_;
  const std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace weir
