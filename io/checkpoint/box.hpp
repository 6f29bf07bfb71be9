#pragma once
// Boxes of one tensor against each other: which overlap, and whether they cover it.
#include "ir/mesh.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trivium {

/// "[2, 3]".
std::string print_shape(const Shape& shape);
/// "[2, 3] at [0, 4]".
std::string print_box(const Box& box);

/// Elements; nothing where an extent is negative or the product leaves i64.
std::optional<i64> safe_count(const Shape& shape);

/// Whether `box` has as many dimensions as `whole` and stays inside. Safe for any numbers.
bool is_inside(const Box& box, const Shape& whole);

/// What two boxes of one tensor share; nothing where that has no element. \pre as many dimensions
std::optional<Box> intersection(const Box& a, const Box& b);

/// Elements [begin, begin + count) of a tensor of this shape, flattened row-major, as boxes that follow each
/// other.
std::vector<Box> boxes_of_range(const Shape& shape, i64 begin, i64 count);

/// What keeps `boxes` from covering each element of `whole` once: "has a hole: …", "[…] and […] overlap";
/// empty where they do. \pre all are inside, none is empty
std::string tiling_fault(const Shape& whole, const std::vector<Box>& boxes);

} // namespace trivium
