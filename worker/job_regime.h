// SPDX-License-Identifier: Apache-2.0
// `regime:` and what belongs to it in a job file: docs/regimes.md.
#pragma once

#include <string>

#include "weir/v1/job_spec.pb.h"
#include "worker/yaml_value.h"

namespace weir {

// Reads `regime`, `backup_workers` and `learning_rate_scale`, after the numbers of workers and
// replicas.
void ReadRegime(YamlMap& job, v1::JobSpec& spec);
// Reports what contradicts, also `deterministic`, at the key that it is about.
void CheckRegimeKeys(YamlMap& job, const v1::JobSpec& spec);

// "regime: sync\nbackup_workers: 1\n"
std::string PrintRegime(const v1::RegimeSpec& regime);

}  // namespace weir
