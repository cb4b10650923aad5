// SPDX-License-Identifier: Apache-2.0
// The `optimizers:` of a job file: docs/job-file.md.
#pragma once

#include <string>

#include "weir/v1/variables.pb.h"
#include "worker/job_file.h"
#include "worker/yaml_value.h"

namespace weir {

// Reads every optimizer into the job; reports what is wrong through the value.
void ReadOptimizers(const YamlValue& value, JobFile& job);

// What a job without `optimizers:` trains with: sgd with learning rate 0.1 and momentum 0.9.
v1::Optimizer DefaultOptimizer();

// "{kind: sgd, learning_rate: 0.1, ...}": one line of YAML, every option written.
std::string PrintOptimizer(const v1::Optimizer& optimizer);

}  // namespace weir
