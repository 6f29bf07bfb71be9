#pragma once
// The angles of rotary position embeddings. Host only.
#include "base/rope_angles.hpp"

namespace trivium::kernels {

/// The frequencies in radians per position of `pairs` pairs of elements, and the factor of cos and sin.
struct RopeFrequencies {
    std::vector<double> frequencies;
    double attention_factor = 1;
};

/// theta^(-j/pairs), changed for long contexts as `angles.scaling` says. `seq`: tokens of a context, if
/// angles.seq is 0.
/// linear: divided by factor. dynamic: another theta beyond original_seq ("NTK"). llama3: apply_scaling in
/// Meta's code: wavelengths above original_seq/low_freq_factor are multiplied by factor, those below
/// original_seq/high_freq_factor stay, with a blend linear in 1/wavelength between them. yarn:
/// arXiv:2309.00071, section 3. longrope (arXiv:2402.13753): divided by long_factors if the context is longer
/// than original_seq, by short_factors otherwise; the attention factor is the same for both.
/// \throws InternalError if pairs < 1, or if longrope has another number of factors
RopeFrequencies rope_frequencies(const RopeAngles& angles, i64 pairs, i64 seq);

/// Fills table [max_pos, pairs, 2] with (cos, sin), computed in double. Real is float or double.
template <class Real>
void fill_rope_table(const RopeAngles& angles, i64 pairs, i64 max_pos, Real* table_pf2);

} // namespace trivium::kernels
