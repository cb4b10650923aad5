// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/file_system.h"

namespace weir {

// XXH3's 64-bit hash with seed 0 over bytes that come in pieces. Used from one thread.
class Digest {
 public:
  Digest();
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  Digest& Update(absl::Span<const std::byte> bytes);
  Digest& Update(absl::string_view bytes);
  uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct FileDigest {
  uint64_t size = 0;
  uint64_t xxh3 = 0;
};

// Reads the whole file. Errors: those of FileSystem::Scan.
absl::StatusOr<FileDigest> DigestFile(FileSystem& files, const std::string& path);

}  // namespace weir
