#pragma once
// Slices whose place is known only at run time.
#include "kernels/exec.hpp"

namespace trivium::kernels {

/// A slice of `size` elements per dimension out of a tensor of `whole`. The start in each dimension is
/// clamped to [0, whole - size], as in StableHLO.
///
/// Both tensors may be shards: the local part of the whole tensor has `extent` elements from `begin` on, that
/// of the slice has `slice_extent` elements from the slice's element `slice_begin` on. All are contiguous.
struct DynamicSliceShape {
    int rank = 0; ///< at most 16
    i64 whole[16] = {}, begin[16] = {}, extent[16] = {};
    i64 size[16] = {}, slice_begin[16] = {}, slice_extent[16] = {};
};

/// The start in each dimension, read when the kernel runs; null is 0.
struct DynamicStarts {
    const std::int32_t* of[16] = {};
};

/// y (the slice) = x at the starts; 0 where that is outside of the local part of x.
template <class T>
void dynamic_slice(const Exec& exec, const DynamicSliceShape& shape, const T* x, const DynamicStarts& starts,
                   T* y);

/// y = x, with `update` (the slice) at the starts; what is outside of the local part is skipped. y may be x.
template <class T>
void dynamic_update_slice(const Exec& exec, const DynamicSliceShape& shape, const T* x, const T* update,
                          const DynamicStarts& starts, T* y);

} // namespace trivium::kernels
