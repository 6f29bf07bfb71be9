#pragma once
// Copies whose elements come from another place: transpose, broadcast, slice, pad, reverse, concatenate.
#include "kernels/exec.hpp"

#include <span>

namespace trivium::kernels {

/// Where each element of a result is copied from. Result dimension d follows one dimension of the operand:
/// element (i_0, i_1, …) reads the operand at index (i_d * step - low) / base of that dimension. If an index
/// is not an integer in [0, in), the element is `value`.
///
/// Examples for one dimension: a slice [3:20:2] is step 2, low -3; a pad by 2 with one element between
/// neighbours is low 2, base 2; a reversal is step -1, low -(in - 1); a broadcast is step 0, in_stride 0.
struct IndexMap {
    struct Dim {
        i64 out = 1;        ///< extent of the result
        i64 out_stride = 1; ///< elements between neighbours in the result
        i64 in = 1;         ///< extent of the operand's dimension
        i64 in_stride = 0;  ///< elements between neighbours in the operand
        i64 step = 1, low = 0, base = 1;
    };
    int rank = 0; ///< of the result, at most 16
    Dim dims[16];
};

/// y[i] = x[map(i)], or `value` where the map has no index. x and y are the addresses of the elements with
/// all indices 0. Elements of y between the map's strides keep their content, so that a concatenation is one
/// call for each operand.
template <class T>
void index_copy(const Exec& exec, const IndexMap& map, double value, const T* x, T* y);

/// Elements [begin, begin + n) of a broadcast, in row-major order, to y: on the calling thread of the host.
/// \pre has_long_runs(map)
template <class T>
void spread(const IndexMap& map, i64 begin, i64 n, const T* x, T* y);
/// Whether `map` has no strides in its result and long runs of elements that are equal or neighbours.
/// \pre merged()
bool has_long_runs(const IndexMap& map);
/// The same broadcast by as few dimensions as possible.
IndexMap merged(const IndexMap& broadcast);

// Maps for whole, contiguous tensors. The operand has the extents `in`.

/// The result's dimension i is the operand's dims[i].
IndexMap transpose_map(std::span<const i64> in, std::span<const i64> dims);
/// The operand's dimension i becomes dims[i] of the result, whose extents are `out`; extents of 1 expand.
IndexMap broadcast_map(std::span<const i64> in, std::span<const i64> dims, std::span<const i64> out);
/// Per dimension: the elements start, start + stride, … below limit.
IndexMap slice_map(std::span<const i64> in, std::span<const i64> start, std::span<const i64> limit,
                   std::span<const i64> stride);
/// Per dimension: `low` and `high` elements outside (negative: removed), `interior` between neighbours.
IndexMap pad_map(std::span<const i64> in, std::span<const i64> low, std::span<const i64> high,
                 std::span<const i64> interior);
/// Reverses the dimensions `dims`.
IndexMap reverse_map(std::span<const i64> in, std::span<const i64> dims);
/// The map of one operand of a concatenation along `dim`, where the result has `whole` elements. The argument
/// y is the address of the operand's first element in the result: the address of the result plus (elements
/// before the operand along `dim`) * (product of the extents after `dim`).
IndexMap concatenate_map(std::span<const i64> in, int dim, i64 whole);

} // namespace trivium::kernels
