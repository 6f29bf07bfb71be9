#pragma once
// The type of a tensor: element type and static shape. Tensors are dense and row-major.
#include "base/dtype.hpp"

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

/// Extents, outermost first. Empty: a scalar.
using Shape = std::vector<i64>;

i64 element_count(const Shape& shape);

struct TensorType {
    DType dtype = DType::f32;
    Shape shape;

    i64 elements() const { return element_count(shape); }
    Bytes bytes() const { return elements() * size_of(dtype); }
    bool operator==(const TensorType&) const = default;
};

/// Where a value's bytes are: in the memory of the device that computes, or of its host. On a CPU both are
/// host memory, but two arenas.
enum class Space { device, host };
std::string_view name_of(Space space);

/// "f32[4,128]"; a scalar is "f32[]".
std::string to_string(const TensorType& type);
std::ostream& operator<<(std::ostream& out, const TensorType& type);

} // namespace trivium
