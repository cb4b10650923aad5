// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/preamble.h"

#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "checkpoint/digest.h"

namespace weir {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is written as memory holds it");

constexpr size_t kCheckedBytes = 12;

uint32_t CheckOf(absl::string_view bytes) {
  return static_cast<uint32_t>(Digest().Update(bytes.substr(0, kCheckedBytes)).value());
}

}  // namespace

std::string EncodePreamble(absl::string_view magic, uint32_t format) {
  std::string bytes(magic);
  AppendU32(bytes, format);
  AppendU32(bytes, CheckOf(bytes));
  return bytes;
}

absl::Status CheckPreamble(absl::string_view bytes, absl::string_view magic,
                           absl::string_view where) {
  if (bytes.size() < kPreambleBytes) {
    return absl::DataLossError(absl::StrCat(where, " is cut short: ", bytes.size(), " bytes"));
  }
  if (bytes.substr(0, magic.size()) != magic) {
    return absl::DataLossError(absl::StrCat(where, " does not begin with ", magic));
  }
  if (LoadU32(bytes.data() + kCheckedBytes) != CheckOf(bytes)) {
    return absl::DataLossError(absl::StrCat(where, " is damaged in its first bytes"));
  }
  const uint32_t format = LoadU32(bytes.data() + magic.size());
  if (format > kCheckpointFormat) {
    return absl::FailedPreconditionError(
        absl::StrCat(where, " has format version ", format, "; this build reads up to ",
                     kCheckpointFormat, ": use the build that wrote it, or a newer one"));
  }
  if (format == 0) {
    return absl::DataLossError(absl::StrCat(where, " has format version 0, which never was"));
  }
  return absl::OkStatus();
}

void AppendU32(std::string& to, uint32_t value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendU64(std::string& to, uint64_t value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

uint32_t LoadU32(const char* from) {
  uint32_t value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

uint64_t LoadU64(const char* from) {
  uint64_t value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

}  // namespace weir
