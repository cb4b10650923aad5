// SPDX-License-Identifier: Apache-2.0
// The small languages inside the scalars of a job file: numbers, lengths, times, sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "weir/v1/job_spec.pb.h"

namespace weir {

// Each gives nullopt where the text is not of that form.

// 3, -0.5, 1e-3, 2.5E4. YAML 1.1 readers take 1e-3 for a string: it is a number here. Not inf, not
// nan.
std::optional<double> ParseNumber(absl::string_view text);
// 0, 500, 1e6: a number without a fraction, below 2^64 (exact below 2^53 in the form with an
// exponent).
std::optional<uint64_t> ParseCount(absl::string_view text);
// true, false; also yes, no, on, off.
std::optional<bool> ParseBool(absl::string_view text);
// "1 epoch", "0.5 epochs", "500 steps", "60000 examples", and times ("5 min") as seconds.
std::optional<v1::Extent> ParseExtent(absl::string_view text);
// "500 ms", "30 s", "5 min", "2 h", "1 day".
std::optional<absl::Duration> ParseTime(absl::string_view text);
// "65536", "256 KiB", "1.5 GiB".
std::optional<uint64_t> ParseBytes(absl::string_view text);

// The shortest text that reads back as the same value.
std::string FormatNumber(double value);
std::string FormatExtent(const v1::Extent& extent);
std::string FormatTime(absl::Duration time);
std::string FormatBytes(uint64_t bytes);
// In double quotes, whatever it holds.
std::string Quoted(const std::string& text);

}  // namespace weir
