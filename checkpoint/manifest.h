// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "weir/v1/coordinator.pb.h"

namespace weir {

// The bytes of a manifest's file: docs/checkpoints.md.
std::string EncodeManifest(const v1::Manifest& manifest);
// Errors: DataLoss - damaged; FailedPrecondition - of a newer format. Both name `where`.
absl::StatusOr<v1::Manifest> DecodeManifest(absl::string_view bytes, absl::string_view where);

// Whether a manifest may be committed: well-formed names, every shard of its shard map in exactly
// one part, and all parts of one cut. InvalidArgument says what is wrong, and names server and
// shard.
absl::Status CheckManifest(const v1::Manifest& manifest);

// Ids: "NNNNNNNN-T". Older ones compare less.
std::string CheckpointId(uint64_t number, uint64_t term);
// InvalidArgument: not such an id, or the name is not fit to be a folder's.
absl::StatusOr<uint64_t> CheckpointNumber(absl::string_view id);
bool IsOlderCheckpoint(absl::string_view a, absl::string_view b);
absl::Status CheckFolderName(absl::string_view what, absl::string_view name);

}  // namespace weir
