#pragma once
// Slices whose start is known only at run time.
#include "kernels/exec.hpp"

namespace trivium::kernels {

/// A slice of `size` elements per dimension of a tensor of `whole` elements. The start in each dimension is
/// clamped to [0, whole - size], as in StableHLO.
///
/// Both tensors may be sharded: x is the shard of `extent` elements from element `begin` of the whole tensor,
/// and y or `update` is the shard of `slice_extent` elements from element `slice_begin` of the slice. Shards
/// are contiguous.
struct DynamicSliceShape {
    int rank = 0; ///< at most 16
    i64 whole[16] = {}, begin[16] = {}, extent[16] = {};
    i64 size[16] = {}, slice_begin[16] = {}, slice_extent[16] = {};
};

/// Addresses of the start in each dimension, read when the kernel runs; null: the start is 0.
struct DynamicStarts {
    const std::int32_t* of[16] = {};
};

/// y = the slice of x; elements outside of the shard x are 0.
template <class T>
void dynamic_slice(const Exec& exec, const DynamicSliceShape& shape, const T* x, const DynamicStarts& starts,
                   T* y);

/// y = x, with the slice replaced by `update`; elements outside of the shard x are skipped. y may be x.
template <class T>
void dynamic_update_slice(const Exec& exec, const DynamicSliceShape& shape, const T* x, const T* update,
                          const DynamicStarts& starts, T* y);

} // namespace trivium::kernels
