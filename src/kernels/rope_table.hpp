#pragma once
// The angles of rotary position embeddings. Host only.
#include "base/units.hpp"

#include <vector>

namespace trivium::kernels {

struct RopeFrequencies {
    i64 head_dim = 0;
    double theta = 10000;
    /// Llama 3.1's frequency scaling for long contexts; a factor of 1 changes nothing.
    double factor = 1;
    double low_freq_factor = 1, high_freq_factor = 4;
    i64 original_seq = 8192;
};

/// Frequencies in radians per position, head_dim/2 of them: theta^(-2i/head_dim), then Llama 3.1's rule
/// (apply_scaling in Meta's code): wavelengths above original_seq/low_freq_factor are multiplied by `factor`,
/// wavelengths below original_seq/high_freq_factor stay; between them, frequencies are blended linearly in
/// 1/wavelength.
/// \throws InternalError if head_dim is not even
std::vector<double> rope_frequencies(const RopeFrequencies& options);

/// Fills table [max_pos, head_dim/2, 2] with (cos, sin), computed in double. Real is float or double.
template <class Real>
void fill_rope_table(const RopeFrequencies& options, i64 max_pos, Real* table_pf2);

} // namespace trivium::kernels
