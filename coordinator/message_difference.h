// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/types/optional.h"
#include "google/protobuf/message.h"

namespace weir {

// Where two messages of one type first differ, in the order of their fields' declaration.
struct MessageDifference {
  std::string key;   // "optimizers[sgd].learning_rate.base", "variables[3].shape[0]"
  std::string left;  // the values there as text; "unset" where there is none
  std::string right;
};

absl::optional<MessageDifference> FirstDifference(const google::protobuf::Message& left,
                                                  const google::protobuf::Message& right);

}  // namespace weir
