// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "rpc/payload.h"

namespace weir {

inline std::string BytesOf(const Payload& payload) {
  std::string bytes;
  for (const Payload::Slice& slice : payload.slices()) {
    bytes.append(reinterpret_cast<const char*>(slice.data), slice.size);
  }
  return bytes;
}

// Owns a copy of the bytes.
inline Payload PayloadOf(const std::string& bytes) {
  Payload payload;
  auto owner = std::make_unique<std::string>(bytes);
  const char* data = owner->data();
  payload.Append(data, bytes.size(), owner.release(), [](void* object) {
    std::unique_ptr<std::string> release(static_cast<std::string*>(object));
  });
  return payload;
}

}  // namespace weir
