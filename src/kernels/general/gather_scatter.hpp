#pragma once
// Gather and scatter with the dimension numbers of StableHLO.
#include "kernels/general/combine.hpp"

#include <algorithm>
#include <optional>

namespace trivium::kernels {

/// A list of dimensions.
struct DimList {
    int count = 0;
    int of[16] = {};

    bool contains(int dim) const { return std::find(of, of + count, dim) != of + count; }
};

/// The operand (for scatter also the result) has `rank` dimensions, the indices `index_rank`. The result of a
/// gather (for scatter: the updates) has the dimensions of the indices without index_dim, and the dimensions
/// of the window at `offset_dims`. For scatter, offset_dims is update_window_dims, collapsed_dims is
/// inserted_window_dims and index_map is scatter_dims_to_operand_dims.
///
/// The operand may be a shard: `extent` elements from element `begin` of `whole` per dimension. The window
/// may be a shard, too: `slice_extent` elements from element `slice_begin` of the window (`sizes` and 0 for
/// the whole window). Along batch dimensions operand and indices have the same shard, and `begin` is not
/// used.
struct GatherShape {
    int rank = 0, index_rank = 0, index_dim = 0; ///< index_dim = index_rank: each index is one number
    i64 whole[16] = {}, begin[16] = {}, extent[16] = {};
    i64 indices[16] = {}; ///< extents of the indices
    DimList offset_dims, collapsed_dims, batch_dims, index_batch_dims, index_map;
    i64 sizes[16] = {}; ///< of the whole window, for each dimension of the operand
    i64 slice_begin[16] = {}, slice_extent[16] = {};
    /// Whether starts are clamped so that the window is inside of the whole operand. nullopt: as in
    /// StableHLO, for gather but not for scatter.
    std::optional<bool> clamps{};
};

/// y = windows of x; elements outside of the operand's shard are 0.
template <class T>
void gather(const Exec& exec, const GatherShape& shape, const T* x, const std::int32_t* indices, T* y);

/// y = x with each update combined into its element of y, rounded to T each time, in row-major order of the
/// updates. Single elements of the updates that are outside of the operand's shard are skipped. Unless
/// `from_operand`, y starts from the identity of `how` (0 for set) and x is not read. y may be x. Runs in
/// parallel over the dimensions of the window that are not indexed, and over batch dimensions.
template <class T>
void scatter(const Exec& exec, const GatherShape& shape, Combine how, bool from_operand, const T* x,
             const std::int32_t* indices, const T* updates, T* y);

} // namespace trivium::kernels
