// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace rocksdb {
class Env;
}  // namespace rocksdb

namespace weir {

// The machine's files for a RocksDB that need not outlive a crash, or whose files somebody else
// syncs: every sync succeeds and does nothing. A new database alone asks for some ten of them.
std::unique_ptr<rocksdb::Env> NewUnsyncedEnv();

}  // namespace weir
