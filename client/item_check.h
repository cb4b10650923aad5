// SPDX-License-Identifier: Apache-2.0
// What is checked of a call against the declared schema before its first byte leaves.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/routes.h"
#include "weir/parameter_client.h"

namespace weir {

// InvalidArgument - a variable that does not exist or comes twice, or a wrong size.
absl::Status CheckPull(const Routes& routes, absl::Span<const PullItem> items);

// InvalidArgument - besides: a variable of another group, a bad weight, and, named by variable and
// element, a gradient that is NaN or infinite. Values of state (group 0) may be.
absl::Status CheckPush(const Routes& routes, uint64_t worker, absl::Span<const PushItem> items,
                       const PushOptions& options);

// InvalidArgument - besides: a variable that is missing.
absl::Status CheckAssign(const Routes& routes, absl::Span<const PushItem> items);

}  // namespace weir
