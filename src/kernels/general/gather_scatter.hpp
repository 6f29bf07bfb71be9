#pragma once
// Gather and scatter with the dimension numbers of StableHLO.
#include "kernels/general/combine.hpp"

#include <optional>

namespace trivium::kernels {

/// A list of dimensions.
struct DimList {
    int count = 0;
    int of[16] = {};
};

/// The operand (for scatter: the result, too) has `rank` dimensions, the indices `index_rank`; the result of
/// a gather (for scatter: the updates) has the indices' dimensions without index_dim, with the window's
/// dimensions at `offset_dims`. For scatter, offset_dims is update_window_dims, collapsed_dims is
/// inserted_window_dims and index_map is scatter_dims_to_operand_dims.
///
/// The operand may be a shard: `extent` elements from `begin` on of `whole` per dimension. The window may be
/// a shard, too: `slice_extent` elements from the window's element `slice_begin` on; for the whole window
/// they are sizes and 0. Along batch dimensions operand and indices have the same local part; `begin` is not
/// used.
struct GatherShape {
    int rank = 0, index_rank = 0, index_dim = 0; ///< index_dim: index_rank if each index is one number
    i64 whole[16] = {}, begin[16] = {}, extent[16] = {};
    i64 indices[16] = {}; ///< extents of the indices
    DimList offset_dims, collapsed_dims, batch_dims, index_batch_dims, index_map;
    i64 sizes[16] = {}; ///< of the whole window, for each dimension of the operand
    i64 slice_begin[16] = {}, slice_extent[16] = {};
    /// Whether starts are clamped so that the window is inside of the whole operand. By default as in
    /// StableHLO: for gather, not for scatter.
    std::optional<bool> clamps{};
};

/// y = windows of x; what is outside of the (local part of the) operand is 0.
template <class T>
void gather(const Exec& exec, const GatherShape& shape, const T* x, const std::int32_t* indices, T* y);

/// y = x with each update combined into its place, rounded to T each time, for each element in row-major
/// order of the updates. Updates outside of the (local part of the) operand are skipped, each element for
/// itself. Unless `from_operand`, y starts from the identity of `how` (0 for set) and
/// x is not read. y may be x. Runs in parallel over the dimensions of the window that are not indexed, and
/// over batch dimensions.
template <class T>
void scatter(const Exec& exec, const GatherShape& shape, Combine how, bool from_operand, const T* x,
             const std::int32_t* indices, const T* updates, T* y);

} // namespace trivium::kernels
