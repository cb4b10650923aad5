// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/manifest.h"

#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "checkpoint/digest.h"
#include "checkpoint/preamble.h"
#include "common/status_macros.h"

namespace weir {
namespace {

constexpr absl::string_view kMagic = "WEIRMANI";
constexpr size_t kFrameBytes = kPreambleBytes + 16;
constexpr size_t kDigestedFrameBytes = kPreambleBytes + 8;
constexpr size_t kLongestName = 200;

struct IdParts {
  absl::string_view number;
  absl::string_view term;
};

absl::StatusOr<IdParts> SplitId(absl::string_view id) {
  const size_t dash = id.find('-');
  if (dash != absl::string_view::npos) {
    const IdParts parts{id.substr(0, dash), id.substr(dash + 1)};
    const bool digits = std::all_of(parts.number.begin(), parts.number.end(), absl::ascii_isdigit);
    const bool hex = std::all_of(parts.term.begin(), parts.term.end(), [](char c) {
      return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
    });
    if (digits && hex && parts.number.size() >= 8 && parts.number.size() <= 20 &&
        !parts.term.empty() && parts.term.size() <= 16) {
      return parts;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", id, "' is not a checkpoint's id: expected one like 00000012-3"));
}

bool IsShorterOrLess(absl::string_view a, absl::string_view b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

absl::Status CheckSameCut(const v1::CheckpointPart& first, const v1::CheckpointPart& part) {
  const auto differ = [&](absl::string_view what, uint64_t a, uint64_t b) {
    return absl::InvalidArgumentError(absl::StrCat("the parts are not of one cut: ", what, " is ",
                                                   a, " on ", first.server(), " and ", b, " on ",
                                                   part.server()));
  };
  if (first.cut() != part.cut()) return differ("cut", first.cut(), part.cut());
  if (first.attempt() != part.attempt()) return differ("attempt", first.attempt(), part.attempt());
  return absl::OkStatus();
}

absl::Status CheckShards(const v1::Manifest& manifest) {
  std::vector<const v1::CheckpointPart*> holder(manifest.shard_map().server_of_shard_size());
  for (const v1::CheckpointPart& part : manifest.parts()) {
    for (const uint64_t shard : part.shards()) {
      if (shard >= holder.size()) {
        return absl::InvalidArgumentError(absl::StrCat("part of ", part.server(), " has shard ",
                                                       shard, "; the job has ", holder.size()));
      }
      if (holder[shard] != nullptr) {
        return absl::InvalidArgumentError(absl::StrCat("shard ", shard, " is in the parts of ",
                                                       holder[shard]->server(), " and of ",
                                                       part.server()));
      }
      holder[shard] = &part;
    }
  }
  const auto missing = std::find(holder.begin(), holder.end(), nullptr);
  if (missing == holder.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("shard ", missing - holder.begin(), " is in no part"));
}

}  // namespace

std::string EncodeManifest(const v1::Manifest& manifest) {
  const std::string message = manifest.SerializeAsString();
  std::string bytes = EncodePreamble(kMagic);
  AppendU64(bytes, message.size());
  const uint64_t digest = Digest().Update(bytes).Update(message).value();
  AppendU64(bytes, digest);
  bytes += message;
  return bytes;
}

absl::StatusOr<v1::Manifest> DecodeManifest(absl::string_view bytes, absl::string_view where) {
  WEIR_RETURN_IF_ERROR(CheckPreamble(bytes, kMagic, where));
  if (bytes.size() < kFrameBytes) {
    return absl::DataLossError(absl::StrCat(where, " is cut short: ", bytes.size(), " bytes"));
  }
  const uint64_t length = LoadU64(bytes.data() + kPreambleBytes);
  const absl::string_view message = bytes.substr(kFrameBytes);
  if (length != message.size()) {
    return absl::DataLossError(absl::StrCat(where, " should hold a message of ", length,
                                            " bytes; it holds ", message.size()));
  }
  const uint64_t digest =
      Digest().Update(bytes.substr(0, kDigestedFrameBytes)).Update(message).value();
  if (digest != LoadU64(bytes.data() + kDigestedFrameBytes)) {
    return absl::DataLossError(absl::StrCat(where, " is damaged: its checksum does not match"));
  }
  v1::Manifest manifest;
  if (message.size() > std::numeric_limits<int>::max() ||
      !manifest.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    return absl::DataLossError(absl::StrCat(where, " does not hold a manifest"));
  }
  return manifest;
}

absl::Status CheckManifest(const v1::Manifest& manifest) {
  WEIR_RETURN_IF_ERROR(CheckFolderName("job", manifest.job()));
  WEIR_RETURN_IF_ERROR(CheckpointNumber(manifest.id()).status());
  if (manifest.parts().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("checkpoint ", manifest.id(), " has no parts"));
  }
  for (const v1::CheckpointPart& part : manifest.parts()) {
    WEIR_RETURN_IF_ERROR(CheckSameCut(manifest.parts(0), part));
    if (part.files().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the part of ", part.server(), " lists no files"));
    }
  }
  return CheckShards(manifest);
}

std::string CheckpointId(uint64_t number, uint64_t term) {
  return absl::StrFormat("%08u-%x", number, term);
}

absl::StatusOr<uint64_t> CheckpointNumber(absl::string_view id) {
  WEIR_ASSIGN_OR_RETURN(const IdParts parts, SplitId(id));
  uint64_t number = 0;
  if (!absl::SimpleAtoi(parts.number, &number)) {
    return absl::InvalidArgumentError(absl::StrCat("'", id, "' has too large a number"));
  }
  return number;
}

bool IsOlderCheckpoint(absl::string_view a, absl::string_view b) {
  const absl::StatusOr<IdParts> left = SplitId(a);
  const absl::StatusOr<IdParts> right = SplitId(b);
  if (!left.ok() || !right.ok()) return a < b;
  if (left->number != right->number) return IsShorterOrLess(left->number, right->number);
  return IsShorterOrLess(left->term, right->term);
}

absl::Status CheckFolderName(absl::string_view what, absl::string_view name) {
  const bool fit = !name.empty() && name.size() <= kLongestName && name.front() != '.' &&
                   std::all_of(name.begin(), name.end(), [](char c) {
                     return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
                   });
  if (fit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "'", name, "' cannot name a ", what, ": letters, digits, '.', '_' and '-' only, ", "at most ",
      kLongestName, ", and no dot at the start"));
}

}  // namespace weir
