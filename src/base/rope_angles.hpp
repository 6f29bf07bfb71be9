#pragma once
// The angles of rotary position embeddings (kernels/rope_table.hpp), as graphs state them.
#include "base/units.hpp"

#include <string_view>
#include <vector>

namespace trivium {

/// How the frequencies are changed for contexts that are longer than those of pretraining.
enum class RopeKind : std::uint8_t { none, linear, dynamic, yarn, longrope, llama3 };
inline constexpr std::string_view rope_kind_names[] = {"none", "linear",   "dynamic",
                                                       "yarn", "longrope", "llama3"};

/// The frequencies of c pairs of elements, theta^(-j/c) for j from 0 to c - 1, and their scaling. Members
/// that do not belong to `kind` have no effect.
struct RopeAngles {
    double theta = 10000;
    double factor = 1; ///< of the context; 1 changes nothing (longrope: almost)
    double low_freq_factor = 1, high_freq_factor = 4; ///< llama3
    i64 original_seq = 8192;                          ///< tokens of a context of pretraining
    RopeKind kind = RopeKind::llama3;
    double beta_fast = 32, beta_slow = 1;  ///< yarn: rotations in original_seq between which it blends
    double attention_factor = 0;           ///< yarn, longrope: of cos and sin; 0: by their formula
    double mscale = 0, mscale_all_dim = 0; ///< yarn: if neither is 0, attention_factor is their quotient
    bool truncate = true;                  ///< yarn: rounds the bounds of the blend to whole numbers
    /// dynamic, longrope: tokens of a context, compared with original_seq; 0: as many as the table has.
    i64 seq = 0;
    std::vector<double> short_factors{}, long_factors{}; ///< longrope: a divisor of each frequency

    bool operator==(const RopeAngles&) const = default;
};

} // namespace trivium
