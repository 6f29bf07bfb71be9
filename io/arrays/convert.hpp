#pragma once
// From the numbers of a file to those of a graph's input.
#include "base/dtype.hpp"

#include <string>

namespace trivium {

struct Conversion {
    DType from = DType::f32, to = DType::f32; ///< `to` is a type of tensors
    double scale = 1, offset = 0;             ///< value = stored * scale + offset

    bool scales() const { return scale != 1 || offset != 0; }
    bool copies() const { return from == to && !scales(); }
};

/// Whether numbers of `from` may become `to`: all of them floating-point numbers, integers i32.
constexpr bool is_convertible(DType from, DType to)
{
    return is_tensor_type(to) && (is_floating(to) || !is_floating(from));
}

/// Converts `count` numbers, rounding to nearest. Returns the index of the first result that is NaN or
/// infinite, or that does not fit i32, or `count`. \pre is_convertible; i32 is not scaled
i64 convert(const Conversion& conversion, const void* from, i64 count, void* to);

/// Index of the first NaN or infinity, or `count`.
i64 first_not_finite(DType type, const void* numbers, i64 count);

/// Number `index` as f64, rounded.
double number_at(DType type, const void* numbers, i64 index);

} // namespace trivium
