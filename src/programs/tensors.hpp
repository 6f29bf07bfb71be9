#pragma once
// The tensors that a program reads: values that no op computes, drawn at random, from memory, or
// (tensor_file.hpp) from a file.
#include "ir/graph.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace trivium {

/// Row-major and dense.
using TensorBytes = std::vector<std::byte>;
/// Whole tensors, by the name of their value.
using Tensors = std::map<std::string, TensorBytes>;

/// Writes the elements of `box` of the whole tensor, row-major and dense. `value` is one of the graph of all
/// ranks that no op computes. May be called by several threads at a time.
using TensorSource = std::function<void(const Value& value, const Box& box, std::byte* to)>;

/// Copies a box out of a whole tensor.
void copy_box(const TensorType& whole, const std::byte* from, const Box& box, std::byte* to);
/// Copies a box into a whole tensor.
void place_box(const TensorType& whole, const std::byte* from, const Box& box, std::byte* to);

/// Random numbers that depend on (seed, name of the value, index of the element): standard normals, rounded
/// to the value's type; integers from 0 to 9, or below the extent that they index if that is less. A value
/// with an `init` has that content, a carry is 0.
TensorSource drawn_source(const Graph& global, u64 seed);
/// Tensors in memory. Throws InternalError if one is missing or has another size.
TensorSource source_of(Tensors tensors);

/// The whole tensors of drawn_source, for every value that no op computes.
Tensors draw_tensors(const Graph& global, u64 seed);

/// The tensor of all ranks that a rank's partial contributions combine to, split: the first rank along each
/// axis over which the value is partial contributes the whole, all others the combiner's identity. Writes the
/// identity to the `bytes` of a rank that contributes nothing, and says whether it is such a rank.
bool contributes_nothing(const Value& value, const Mesh& mesh, const Coordinates& at, std::byte* to,
                         Bytes bytes);

} // namespace trivium
