// SPDX-License-Identifier: Apache-2.0
// What programs of one cluster agree on besides the messages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace weir {

// The version of weir.v1 that this build speaks.
inline constexpr uint32_t kProtocol = 1;
// "weir 0.1.0", for messages to people.
extern const char kBuild[];

// What a gRPC peer with default settings accepts as one message.
inline constexpr size_t kMaxMessageBytes = 4'194'304;

inline constexpr size_t kMaxCollectiveNameBytes = 256;
// Of what one replica gives to a collective.
inline constexpr uint64_t kMaxCollectiveElements = uint64_t{1} << 44;

// How long a server holds pushes for a change of steps or a cut that does not come, and so for how
// long a coordinator tries to agree on one.
inline constexpr absl::Duration kStepHoldTime = absl::Seconds(2);

// Where a coordinator listens, and is looked for, unless somebody says otherwise.
inline constexpr char kDefaultCoordinator[] = "127.0.0.1:4660";
// In the line that a daemon prints once it serves, before its HOST:PORT.
inline constexpr char kReadyMark[] = " ready address=";

}  // namespace weir
