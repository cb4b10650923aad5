// SPDX-License-Identifier: Apache-2.0
// What is checked of a call against the declared schema before its first byte leaves. A variable's
// bytes are its elements times its dtype's size, in the order of its declaration. Every error is
// InvalidArgument, the caller's bug, and names the variable.
#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/routes.h"
#include "weir/parameter_client.h"

namespace weir {

// Errors: InvalidArgument - a variable that does not exist or comes twice, other bytes than its
// own, no memory to pull into.
absl::Status CheckPull(const Routes& routes, absl::Span<const PullItem> items);

// An item without data is absent: its size is not looked at.
// Errors: InvalidArgument - a variable that does not exist or comes twice, other bytes than its
// own, another group than the push; a group that does not exist, a weight that is not finite or not
// positive (0 may be that of a push whose items are all absent), a rate_scale that is not finite or
// not positive; NotFinite - a gradient with NaN or an infinity, by variable, element, `worker` and
// step. Values of state (group 0) may have both.
absl::Status CheckPush(const Routes& routes, WorkerId worker, absl::Span<const PushItem> items,
                       const PushOptions& options);

// Errors: InvalidArgument - a variable that does not exist, comes twice or is missing, other bytes
// than its own, no value.
absl::Status CheckAssign(const Routes& routes, absl::Span<const PushItem> items);

}  // namespace weir
