#pragma once
// metrics.layers.jsonl: norms of the parts of each layer, a JSON object per step and part:
//
//   {"step": 100, "layer": 3, "part": "attn", "grad_norm": 0.0121, "weight_norm": 31.2, "update_norm":
//   0.0154}
//
// Parameters outside of layers have no "layer"; null is a number that is not finite.
#include "base/units.hpp"

#include <array>
#include <string>
#include <vector>

namespace trivium {

inline constexpr std::array<const char*, 3> layer_norm_keys{"grad_norm", "weight_norm", "update_norm"};

struct LayerNorms {
    i64 step = 0;
    std::string part;            ///< "embed", "layers.3.attn"
    std::array<double, 3> norms; ///< by layer_norm_keys; NaN if not finite
};

/// The lines of `path`, or of `path`/metrics.layers.jsonl; none if the file does not exist. Skips other
/// lines.
std::vector<LayerNorms> read_layer_norms(const std::string& path);

} // namespace trivium
