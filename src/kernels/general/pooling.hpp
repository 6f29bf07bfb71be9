#pragma once
// Reductions over windows, and the gradient of their maximum or minimum.
#include "kernels/general/combine.hpp"

namespace trivium::kernels {

/// Per dimension: element t of window o is x at (o * stride - low + t * dilation) / base if that is an
/// integer in [0, in); otherwise it is the identity of the combination.
struct PoolShape {
    int rank = 0; ///< at most 16
    i64 in[16] = {}, out[16] = {};
    i64 window[16] = {}, stride[16] = {}, low[16] = {}, dilation[16] = {}, base[16] = {};
};

/// y[o] = the combination (any but `set`) of the elements of window o, computed in Acc<T> in row-major order.
template <class T>
void pool(const Exec& exec, const PoolShape& shape, Combine how, const T* x, T* y);

/// `windows` has the extents of the whole tensors. x, dy and dx may be boxes of them, from the indices
/// `*_begin`; dx is a box of the gradient of the same whole tensor as x. x must contain every element of the
/// windows of dy that meet dx.
struct PoolGradShape {
    PoolShape windows;
    i64 x_begin[16] = {}, x_extent[16] = {};
    i64 dy_begin[16] = {}, dy_extent[16] = {};
    i64 dx_begin[16] = {}, dx_extent[16] = {};
};

/// dx[i] = sum of dy[o] over the windows o of dy whose first maximum (or minimum), in row-major order, is at
/// i: the gradient of pool with max or min. The first NaN counts as the maximum and as the minimum. `extrema`
/// is scratch, with as many elements as dy. \throws InternalError for a window of more than 2^31 elements
template <class T>
void pool_extremum_grad(const Exec& exec, const PoolGradShape& shape, Combine how, const T* dy, const T* x,
                        std::int32_t* extrema, T* dx);

} // namespace trivium::kernels
