#include "kernels/rope_table.hpp"

#include "base/check.hpp"

#include <cmath>
#include <numbers>

namespace trivium::kernels {

std::vector<double> rope_frequencies(const RopeFrequencies& options)
{
    TRV_CHECK(options.head_dim > 0 && options.head_dim % 2 == 0, "head_dim ", options.head_dim,
              " is not even");
    const double longest = static_cast<double>(options.original_seq) / options.low_freq_factor;
    const double shortest = static_cast<double>(options.original_seq) / options.high_freq_factor;
    std::vector<double> result;
    for (i64 i = 0; i < options.head_dim / 2; ++i) {
        double frequency =
            std::pow(options.theta, -2.0 * static_cast<double>(i) / static_cast<double>(options.head_dim));
        const double wavelength = 2 * std::numbers::pi / frequency;
        if (options.factor != 1 && wavelength > longest)
            frequency /= options.factor;
        else if (options.factor != 1 && wavelength >= shortest) {
            const double blend =
                (static_cast<double>(options.original_seq) / wavelength - options.low_freq_factor) /
                (options.high_freq_factor - options.low_freq_factor);
            frequency = (1 - blend) * frequency / options.factor + blend * frequency;
        }
        result.push_back(frequency);
    }
    return result;
}

template <class Real>
void fill_rope_table(const RopeFrequencies& options, i64 max_pos, Real* table_pf2)
{
    const std::vector<double> frequencies = rope_frequencies(options);
    for (i64 pos = 0; pos < max_pos; ++pos)
        for (const double frequency : frequencies) {
            const double angle = static_cast<double>(pos) * frequency;
            *table_pf2++ = static_cast<Real>(std::cos(angle));
            *table_pf2++ = static_cast<Real>(std::sin(angle));
        }
}

template void fill_rope_table(const RopeFrequencies&, i64, float*);
template void fill_rope_table(const RopeFrequencies&, i64, double*);

} // namespace trivium::kernels
