// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "weir/v1/job_spec.pb.h"
#include "worker/yaml_value.h"

namespace weir {

// The job's `data`; the model must have been read. Paths that are not absolute start at `folder`.
void ReadData(YamlMap& job, const std::string& folder, v1::JobSpec& spec);

// MakeInput of the program's replica class gives the batches, not files.
bool HasOwnInput(const v1::DataSpec& data);
// The same, and they come from a callable, without end.
bool IsSource(const v1::DataSpec& data);

}  // namespace weir
