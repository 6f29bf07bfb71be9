#pragma once
// Reductions over any dimensions.
#include "kernels/general/combine.hpp"

namespace trivium::kernels {

/// Extents of x, and which dimensions are reduced; the result has the other dimensions.
struct ReduceShape {
    int rank = 0; ///< at most 16
    i64 extents[16] = {};
    bool reduced[16] = {};
};

/// y = the combination (any but `set`) of x over the reduced dimensions, computed in Acc<T> in an order that
/// depends only on the shape. If a reduced extent is 0, y is the identity of `how` (0, -inf, inf, 1; INT_MIN
/// and INT_MAX for int32). max and min of NaN are NaN.
template <class T>
void reduce(const Exec& exec, const ReduceShape& shape, Combine how, const T* x, T* y);

} // namespace trivium::kernels
