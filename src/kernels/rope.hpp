#pragma once
// Rotary position embedding (Su et al. 2021, arXiv:2104.09864), of a whole head or of its first elements.
#include "kernels/exec.hpp"

namespace trivium::kernels {

/// x [batch, seq, heads, head_dim]; `heads` is the product of any dimensions between seq and head_dim.
/// The first 2 pairs elements of a head rotate, the others stay. Element i is paired with i + pairs, as in
/// Hugging Face's layout of Llama, or, `interleaved`, 2i with 2i + 1.
/// \pre 2 pairs <= head_dim
struct RopeShape {
    i64 batch = 0, seq = 0, heads = 0, head_dim = 0, pairs = 0;
    bool interleaved = false;
    i64 x_row = 0, y_row = 0; ///< elements between tokens; 0: dense
};

/// y = x rotated by the angles of its position; `inverse` rotates by the negative angles, which is also the
/// gradient. `table` has (cos, sin) for each position and each pair (see rope_table.hpp). y may alias x.
/// \pre 0 <= pos < rows of the table (not checked)
template <class T>
void rope(const Exec& exec, const RopeShape& shape, const T* x_bshe, const std::int32_t* pos_bs,
          const Acc<T>* table_pf2, bool inverse, T* y_bshe);

} // namespace trivium::kernels
