#pragma once
// Picks the next token from logits.
#include "base/rng.hpp"
#include "base/units.hpp"

#include <span>
#include <vector>

namespace trivium {

struct SamplerConfig {
    double temperature = 0.8; ///< 0: always the most likely token
    i64 top_k = 0;            ///< keep the k most likely tokens; 0: all
    double top_p = 0.95;      ///< keep the most likely tokens whose probabilities add up to p; 1: all
    std::uint64_t seed = 0;
};

/// Samples with a temperature, top-k and top-p (nucleus sampling: A. Holtzman et al. 2020, "The curious case
/// of neural text degeneration").
class Sampler {
public:
    explicit Sampler(const SamplerConfig& config) : config_(config), random_(config.seed, "generate") {}

    /// The next token, less than `vocab`. \pre logits.size() >= vocab >= 1
    std::int32_t pick(std::span<const float> logits, i64 vocab);

private:
    SamplerConfig config_;
    RandomStream random_;
    std::uint64_t drawn_ = 0;
    std::vector<std::pair<float, std::int32_t>> ranked_;
};

} // namespace trivium
