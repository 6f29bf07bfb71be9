#pragma once
// The angles of rotary position embeddings, as configs and graphs state them.
#include "base/enum_names.hpp"
#include "base/units.hpp"

#include <vector>

namespace trivium {

/// How the frequencies are changed for contexts that are longer than those of pretraining. linear: all
/// divided by factor. dynamic: a larger base beyond original_seq. yarn: YaRN (arXiv:2309.00071). longrope: a
/// divisor per frequency (arXiv:2402.13753). llama3: long wavelengths divided by factor.
enum class RopeKind : std::uint8_t { none, linear, dynamic, yarn, longrope, llama3 };
template <>
inline constexpr std::array<std::string_view, 6> names_of_enum<RopeKind>{"none", "linear",   "dynamic",
                                                                         "yarn", "longrope", "llama3"};

/// Members that do not belong to `kind` have no effect.
struct RopeScaling {
    RopeKind kind = RopeKind::none;
    double factor = 1; ///< of the context; 1 changes nothing (longrope: almost)
    double low_freq_factor = 1, high_freq_factor = 4; ///< llama3
    i64 original_seq = 8192; ///< context length, in tokens, for which the frequencies were trained
    double beta_fast = 32, beta_slow = 1;  ///< yarn: rotations within original_seq between which it blends
    double attention_factor = 0;           ///< yarn, longrope: factor of cos and sin; 0: by their formula
    double mscale = 0, mscale_all_dim = 0; ///< yarn: if neither is 0, attention_factor is their quotient
    bool truncate = true;                  ///< yarn: bounds of the blend are rounded to whole dimensions
    std::vector<double> short_factors{}, long_factors{}; ///< longrope: a divisor of each frequency

    bool operator==(const RopeScaling&) const = default;

    /// The entries of its table in TOML.
    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("kind", self.kind);
        visit("factor", self.factor);
        visit("low_freq_factor", self.low_freq_factor);
        visit("high_freq_factor", self.high_freq_factor);
        visit("original_seq", self.original_seq);
        visit("beta_fast", self.beta_fast);
        visit("beta_slow", self.beta_slow);
        visit("attention_factor", self.attention_factor);
        visit("mscale", self.mscale);
        visit("mscale_all_dim", self.mscale_all_dim);
        visit("truncate", self.truncate);
        visit("short_factors", self.short_factors);
        visit("long_factors", self.long_factors);
    }
};

/// Llama 3's scaling; its other values are those of Llama 3.1.
inline RopeScaling llama3_scaling(double factor, double low_freq_factor = 1, double high_freq_factor = 4,
                                  i64 original_seq = 8192)
{
    return {RopeKind::llama3, factor, low_freq_factor, high_freq_factor, original_seq};
}

/// The frequencies of c pairs of elements, theta^(-j/c) for j from 0 to c - 1, and their scaling.
struct RopeAngles {
    double theta = 10000;
    RopeScaling scaling{};
    /// dynamic, longrope: tokens of a context, compared with original_seq; 0: as many as the table has.
    i64 seq = 0;

    bool operator==(const RopeAngles&) const = default;
};

} // namespace trivium
