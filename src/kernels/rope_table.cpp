#include "kernels/rope_table.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trivium::kernels {

namespace {

/// Llama 3.1's rule for one frequency.
double scaled_as_llama3(const RopeScaling& s, double frequency)
{
    const auto original = static_cast<double>(s.original_seq);
    const double longest = original / s.low_freq_factor, shortest = original / s.high_freq_factor;
    const double wavelength = 2 * std::numbers::pi / frequency;
    if (s.factor == 1 || wavelength < shortest)
        return frequency;
    if (wavelength > longest)
        return frequency / s.factor;
    const double blend =
        (original / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
    return (1 - blend) * frequency / s.factor + blend * frequency;
}

/// YaRN: frequencies that turn often in original_seq stay, those that turn less than once are divided.
void scale_as_yarn(const RopeAngles& angles, std::vector<double>& frequencies)
{
    const RopeScaling& s = angles.scaling;
    const double dim = 2 * static_cast<double>(frequencies.size());
    /// The pair that turns `rotations` times, as a real number.
    const auto pair_of = [&](double rotations) {
        return dim * std::log(static_cast<double>(s.original_seq) / (rotations * 2 * std::numbers::pi)) /
               (2 * std::log(angles.theta));
    };
    double low = pair_of(s.beta_fast), high = pair_of(s.beta_slow);
    if (s.truncate) {
        low = std::floor(low);
        high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, dim - 1);
    if (low == high)
        high += 0.001;
    for (std::size_t j = 0; j < frequencies.size(); ++j) {
        const double divided = std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0);
        frequencies[j] = frequencies[j] * (1 - divided) + frequencies[j] / s.factor * divided;
    }
}

/// The factor of cos and sin.
double attention_factor(const RopeScaling& s)
{
    if (s.kind != RopeKind::yarn && s.kind != RopeKind::longrope)
        return 1;
    if (s.attention_factor > 0)
        return s.attention_factor;
    if (s.factor <= 1)
        return 1;
    const double longer = std::log(s.factor);
    if (s.kind == RopeKind::longrope)
        return std::sqrt(1 + longer / std::log(static_cast<double>(s.original_seq)));
    if (s.mscale != 0 && s.mscale_all_dim != 0)
        return (0.1 * s.mscale * longer + 1) / (0.1 * s.mscale_all_dim * longer + 1);
    return 0.1 * longer + 1;
}

} // namespace

RopeFrequencies rope_frequencies(const RopeAngles& angles, i64 pairs, i64 seq)
{
    TRV_CHECK(pairs > 0, "a table of ", pairs, " pairs");
    const RopeScaling& s = angles.scaling;
    const double dim = 2 * static_cast<double>(pairs);
    const i64 length = angles.seq > 0 ? angles.seq : seq;
    double theta = angles.theta;
    if (s.kind == RopeKind::dynamic && length > s.original_seq && pairs > 1)
        theta *= std::pow(s.factor * static_cast<double>(length) / static_cast<double>(s.original_seq) -
                              (s.factor - 1),
                          dim / (dim - 2));
    RopeFrequencies made;
    made.attention_factor = attention_factor(s);
    for (i64 j = 0; j < pairs; ++j)
        made.frequencies.push_back(std::pow(theta, -2.0 * static_cast<double>(j) / dim));
    switch (s.kind) {
    case RopeKind::none:
    case RopeKind::dynamic: break;
    case RopeKind::linear:
        for (double& frequency : made.frequencies)
            frequency /= s.factor;
        break;
    case RopeKind::yarn: scale_as_yarn(angles, made.frequencies); break;
    case RopeKind::longrope: {
        const auto& factors = length > s.original_seq ? s.long_factors : s.short_factors;
        TRV_CHECK(static_cast<i64>(factors.size()) == pairs, factors.size(), " factors of ", pairs, " pairs");
        for (std::size_t j = 0; j < factors.size(); ++j)
            made.frequencies[j] /= factors[j];
        break;
    }
    case RopeKind::llama3:
        for (double& frequency : made.frequencies)
            frequency = scaled_as_llama3(s, frequency);
        break;
    }
    return made;
}

template <class Real>
void fill_rope_table(const RopeAngles& angles, i64 pairs, i64 max_pos, Real* table_pf2)
{
    const RopeFrequencies made = rope_frequencies(angles, pairs, max_pos);
    for (i64 pos = 0; pos < max_pos; ++pos)
        for (const double frequency : made.frequencies) {
            const double angle = static_cast<double>(pos) * frequency;
            *table_pf2++ = static_cast<Real>(made.attention_factor * std::cos(angle));
            *table_pf2++ = static_cast<Real>(made.attention_factor * std::sin(angle));
        }
}

template void fill_rope_table(const RopeAngles&, i64, i64, float*);
template void fill_rope_table(const RopeAngles&, i64, i64, double*);

} // namespace trivium::kernels
