// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "weir/v1/coordinator.pb.h"

namespace weir {

// Checkpoints of a job that are kept where its spec does not say how many.
inline constexpr uint32_t kDefaultKeep = 3;
// At the end of a file's or folder's name: it is being written, or a crash left it so.
inline constexpr char kUnfinishedSuffix[] = ".tmp";

// The bytes of a manifest's file: docs/checkpoints.md.
std::string EncodeManifest(const v1::Manifest& manifest);
// Errors: DataLoss - damaged; FailedPrecondition - of a newer format. Both name `where`.
absl::StatusOr<v1::Manifest> DecodeManifest(absl::string_view bytes, absl::string_view where);

// Whether a manifest may be committed: well-formed names, every shard of its shard map in exactly
// one part, and all parts of one cut.
// Errors: InvalidArgument - says what is wrong, and names server and shard.
absl::Status CheckManifest(const v1::Manifest& manifest);

// Ids: "NNNNNNNN-T", the number in at least 8 decimal digits, the term in hex.
std::string CheckpointId(uint64_t number, uint64_t term);
// Errors: InvalidArgument - not such an id, or its number is above 2^64 - 1; quotes it.
absl::StatusOr<uint64_t> CheckpointNumber(absl::string_view id);
// By number, then by term; by their letters where one is no id.
bool IsOlderCheckpoint(absl::string_view a, absl::string_view b);
// Whether `name` may be a folder's; `what` it names is for the message.
// Errors: InvalidArgument - empty, over 200 bytes, a dot at its start, or a character other than
// ASCII letters, digits, '.', '_' and '-'.
absl::Status CheckFolderName(absl::string_view what, absl::string_view name);

}  // namespace weir
