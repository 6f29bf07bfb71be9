#pragma once
// Dropout (Srivastava et al. 2014) with numbers that no rank stores: whether an element is kept is a function
// of the sample, the token, the column and the key, so it is the same on every grid and in the backward pass.
#include "base/sequence_order.hpp"
#include "kernels/exec.hpp"

namespace trivium::kernels {

/// A rank's part of x[sequences, tokens, columns].
struct DropoutShape {
    i64 sequences = 0, tokens = 0, columns = 0;
    i64 first_token = 0, first_column = 0;
    i64 words = 2;         ///< of a sample's number, the lowest first; those from the third on have no effect
    std::uint64_t key = 0; ///< of the op, from seed and place
    double rate = 0;       ///< probability of 0, in [0, 1)
    SequenceOrder order{}; ///< of the tokens, by which `token` below is a position
};

/// y = x / (1 - rate) where a number is kept, otherwise 0. An element is kept if its word of
/// philox(key, {column / 4, token, sample, sample >> 32}), the one at column % 4, is at least rate 2^32.
/// y may alias x exactly.
template <class T>
void dropout(const Exec& exec, const DropoutShape& shape, const T* x_bsd, const std::int32_t* sample_bw,
             T* y_bsd);

} // namespace trivium::kernels
