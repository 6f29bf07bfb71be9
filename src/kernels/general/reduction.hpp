#pragma once
// Reductions over any dimensions.
#include "kernels/general/combine.hpp"

namespace trivium::kernels {

/// Extents of x, and which of them are reduced; the result has the others.
struct ReduceShape {
    int rank = 0; ///< at most 16
    i64 extents[16] = {};
    bool reduced[16] = {};
};

/// y = the combination (not set) of x over the reduced dimensions, computed in Acc<T> in an order that
/// depends only on the shape; the identity of `how` where nothing is reduced over (0, -inf, inf, 1; INT_MIN
/// and INT_MAX for int32). max and min of NaN are NaN. To is T or Acc<T>.
template <class T, class To>
void reduce(const Exec& exec, const ReduceShape& shape, Combine how, const T* x, To* y);

} // namespace trivium::kernels
