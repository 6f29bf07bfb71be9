#pragma once
// Picks the next token from logits.
#include "base/rng.hpp"
#include "base/units.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace trivium {

struct SamplerConfig {
    double temperature = 0.8; ///< 0: always the most likely token
    i64 top_k = 0;            ///< keep the k most likely tokens; 0: all
    double top_p = 0.95;      ///< keep the most likely tokens whose probabilities add up to p; 1: all
    /// Keep tokens that are at least this times as probable as the most likely one; 0: all.
    double min_p = 0;
    /// Divides the positive logits, and multiplies the negative ones, of tokens that are already in the
    /// sequence (N. S. Keskar et al. 2019, "CTRL"); 1: none.
    double repetition_penalty = 1;
    std::uint64_t seed = 0;
    i64 sample = 0; ///< index of the sample among those with this seed
};

/// Samples with a temperature, top-k, top-p (nucleus sampling: A. Holtzman et al. 2020, "The curious case of
/// neural text degeneration") and min-p. What it draws depends on seed, sample and the number of draws alone.
class Sampler {
public:
    explicit Sampler(const SamplerConfig& config);

    /// A token of the sequence, for the repetition penalty. \pre token >= 0
    void saw(std::int32_t token);
    /// The next token, less than `vocab`; it counts as seen. \pre logits.size() >= vocab >= 1
    std::int32_t pick(std::span<const double> logits, i64 vocab);

private:
    SamplerConfig config_;
    RandomStream random_;
    std::uint64_t drawn_ = 0;
    std::vector<bool> seen_; ///< by token; shorter: the others were not seen
    std::vector<std::pair<double, std::int32_t>> ranked_;
};

} // namespace trivium
