#pragma once
// metrics.samples.jsonl: what the report shows of samples of the validation data, a JSON object per picture
// or curve:
//
//   {"name": "guess", "sample": 0, "step": 200, "scale": "target", "shape": [9, 5], "values": [0.25, …]}
//
// Without "step" it is an input. The values are row-major; null is a number that is not finite.
#include "base/units.hpp"

#include <string>
#include <vector>

namespace trivium {

struct ShownSample {
    std::string name;       ///< of the input or output
    i64 sample = 0;         ///< its number in the validation data
    i64 step = -1;          ///< after which an output was computed; -1: an input
    std::string scale{};    ///< the input in whose range an output is drawn; empty: its own range
    std::vector<i64> shape; ///< [rows, columns], or [points] of a curve
    std::vector<float> values;
};

/// The content of `path`, or of `path`/metrics.samples.jsonl; nothing if the file does not exist. UserError
/// if a line is not such a record.
std::vector<ShownSample> read_shown_samples(const std::string& path);

/// Replaces dir/metrics.samples.jsonl. IoError.
void write_shown_samples(const std::string& dir, const std::vector<ShownSample>& samples);

/// Limits the steps of the outputs to `most`, the first and the last one and others at about equal ratios.
/// \pre most > 1
void thin_steps(std::vector<ShownSample>& samples, std::size_t most);

} // namespace trivium
