// SPDX-License-Identifier: Apache-2.0
// The 16 bytes that begin everything we write ourselves, in this and in all later formats:
//
//   | magic, 8 | format, 4 | check, 4: low half of the xxh3 of the 12 bytes before it |
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace weir {

inline constexpr size_t kPreambleBytes = 16;
inline constexpr uint32_t kCheckpointFormat = 1;

// `magic` has 8 bytes.
std::string EncodePreamble(absl::string_view magic, uint32_t format = kCheckpointFormat);

// Errors, naming `where`: DataLoss - shorter than a preamble, another magic, or damaged;
// FailedPrecondition - intact, and of a newer format than this build reads.
absl::Status CheckPreamble(absl::string_view bytes, absl::string_view magic,
                           absl::string_view where);

// Little-endian, at any alignment.
void AppendU32(std::string& to, uint32_t value);
void AppendU64(std::string& to, uint64_t value);
uint32_t LoadU32(const char* from);
uint64_t LoadU64(const char* from);

}  // namespace weir
