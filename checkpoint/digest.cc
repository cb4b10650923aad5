// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/digest.h"

// Inlined: the hash of short headers must not cost a call through the PLT.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/status_macros.h"

namespace weir {

struct Digest::State {
  XXH3_state_t hash;
};

Digest::Digest() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->hash);
}
Digest::~Digest() = default;

Digest& Digest::Update(absl::Span<const std::byte> bytes) {
  // XXH3 before 0.8.2 does arithmetic on a null pointer where there is nothing to add.
  if (!bytes.empty()) XXH3_64bits_update(&state_->hash, bytes.data(), bytes.size());
  return *this;
}

Digest& Digest::Update(absl::string_view bytes) {
  return Update(
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()));
}

uint64_t Digest::value() const {
  return XXH3_64bits_digest(&state_->hash);
}

absl::StatusOr<FileDigest> DigestFile(FileSystem& files, const std::string& path) {
  Digest digest;
  FileDigest result;
  WEIR_RETURN_IF_ERROR(files.Scan(path, [&](absl::Span<const std::byte> piece) {
    digest.Update(piece);
    result.size += piece.size();
  }));
  result.xxh3 = digest.value();
  return result;
}

}  // namespace weir
