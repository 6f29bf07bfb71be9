#pragma once
// Rotary position embedding (Su et al. 2021, arXiv:2104.09864). Element i is paired with i + head_dim / 2, as
// in Hugging Face's layout of Llama.
#include "kernels/exec.hpp"

namespace trivium::kernels {

/// x [batch, seq, heads, head_dim]; `heads` is the product of any dimensions between seq and head_dim.
/// \pre head_dim is even
struct RopeShape {
    i64 batch = 0, seq = 0, heads = 0, head_dim = 0;
    i64 x_row = 0, y_row = 0; ///< elements between tokens; 0: dense
};

/// y = x rotated by the angles of its position; `inverse` rotates by the negative angles, which is also the
/// gradient. `table` has (cos, sin) for each position and each of the head_dim/2 frequencies (see
/// rope_table.hpp). y may alias x.
/// \pre 0 <= pos < rows of the table (not checked)
template <class T>
void rope(const Exec& exec, const RopeShape& shape, const T* x_bshe, const std::int32_t* pos_bs,
          const Acc<T>* table_pf2, bool inverse, T* y_bshe);

} // namespace trivium::kernels
