#pragma once
// The type of a tensor: element type and static shape. Tensors are dense and row-major.
#include "base/units.hpp"

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

enum class DType { f64, f32, bf16, i32 };

Bytes size_of(DType type);
std::string_view name_of(DType type);
/// The type called `name`. Throws UserError for an unknown one.
DType dtype_of(std::string_view name);
/// The type in which sums over values of `type` are kept: f64 for f64, f32 for f32 and bf16.
DType accumulator_of(DType type);

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

/// "f32[4,128]"; a scalar is "f32[]".
std::string to_string(const TensorType& type);
std::ostream& operator<<(std::ostream& out, const TensorType& type);

} // namespace trivium
