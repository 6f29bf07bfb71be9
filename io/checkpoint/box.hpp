#pragma once
// Geometry of boxes of a tensor: which elements they contain, and whether they tile it.
#include "ir/mesh.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trivium {

/// "[2, 3]".
std::string print_shape(const Shape& shape);
/// "[2, 3] at [0, 4]".
std::string print_box(const Box& box);

/// Number of elements; nullopt if an extent is negative or the product overflows i64.
std::optional<i64> safe_count(const Shape& shape);

/// Whether `box` has as many dimensions as `whole` and is inside it. Safe for any numbers.
bool is_inside(const Box& box, const Shape& whole);

/// Elements [begin, begin + count) of a tensor of this shape, flattened row-major, as boxes in that order.
/// Each box is contiguous in the tensor. \pre the range is inside the tensor
std::vector<Box> boxes_of_range(const Shape& shape, i64 begin, i64 count);

/// Why `boxes` do not cover each element of `whole` exactly once: "has a hole: …", "[…] and […] overlap";
/// "" if they do. \pre all boxes are inside, none is empty
std::string tiling_fault(const Shape& whole, const std::vector<Box>& boxes);

} // namespace trivium
