#pragma once
// The tensors that a program reads: values that no op computes, drawn at random or
// (tensor_file.hpp) from a file.
#include "ir/graph.hpp"

#include <cstddef>
#include <functional>
#include <vector>

namespace trivium {

/// The elements of a tensor or of a box, row-major and dense.
using TensorBytes = std::vector<std::byte>;

/// Writes the elements of `box` of a whole tensor to `to`, row-major and dense. `value`: of the graph of all
/// ranks, computed by no op. Several threads may call a source at a time.
using TensorSource = std::function<void(const Value& value, const Box& box, std::byte* to)>;

/// Copies a box out of the whole tensor `from`.
void copy_box(const TensorType& whole, const std::byte* from, const Box& box, std::byte* to);
/// Copies the box `from` into the whole tensor `to`.
void place_box(const TensorType& whole, const std::byte* from, const Box& box, std::byte* to);

/// Random numbers that depend on (seed, name of the value, index of the element): standard normals, rounded
/// to the value's type; integers from 0 to 9, or below the extent that they index if that is less. A value
/// with an `init` has that content, a carry is 0.
TensorSource drawn_source(const Graph& global, u64 seed);

/// Divides a partial value into contributions of ranks: the first rank along each axis over which the value
/// is partial contributes the whole value, all others the identity of the combiner. Returns whether the rank
/// `at` is one of the others, and then fills `to`, of `bytes` bytes, with the identity.
bool contributes_nothing(const Value& value, const Mesh& mesh, const Coordinates& at, std::byte* to,
                         Bytes bytes);

} // namespace trivium
