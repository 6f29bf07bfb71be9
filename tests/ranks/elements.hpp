#pragma once
// The elements of the tensors in tests of collectives.
#include "base/bf16.hpp"
#include "base/check.hpp"
#include "base/dtype.hpp"
#include "ir/mesh.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace trivium {

inline void put(DType type, std::byte* data, i64 index, double value)
{
    const auto store = [&](auto element) {
        std::memcpy(data + index * static_cast<i64>(sizeof element), &element, sizeof element);
    };
    type == DType::f64    ? store(value)
    : type == DType::f32  ? store(static_cast<float>(value))
    : type == DType::bf16 ? store(bf16(static_cast<float>(value)))
                          : store(static_cast<std::int32_t>(value));
}

template <class T>
T combined(Combine combine, T a, T b)
{
    switch (combine) {
    case Combine::sum: return a + b;
    case Combine::product: return a * b;
    case Combine::max:
        return std::isnan(a) || std::isnan(b) ? std::numeric_limits<T>::quiet_NaN() : b > a ? b : a;
    case Combine::min:
        return std::isnan(a) || std::isnan(b) ? std::numeric_limits<T>::quiet_NaN() : b < a ? b : a;
    default: TRV_CHECK(false, "no order of additions");
    }
    return a;
}

inline double get(DType type, const std::byte* data, i64 index)
{
    const auto load = [&](auto element) {
        std::memcpy(&element, data + index * static_cast<i64>(sizeof element), sizeof element);
        return element;
    };
    return type == DType::f64   ? load(double{})
           : type == DType::f32 ? load(float{})
           : type == DType::i32 ? load(std::int32_t{})
                                : double{load(bf16{})};
}

/// Signs and sizes that make a sum depend on its order; for lse some of it -infinity, for max and min a few
/// NaNs, infinities and zeros of both signs.
inline double value_of(DType type, int rank, std::size_t operand, i64 index, Combine combine)
{
    u64 x = static_cast<u64>(index) * 0x9e3779b97f4a7c15u + static_cast<u64>(rank) * 0xbf58476d1ce4e5b9u +
            operand * 77777;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    if (combine == Combine::lse && (index % 5 == 0 || (x >> 20) % 3 == 0))
        return -std::numeric_limits<double>::infinity();
    if (type == DType::i32) // all 32 bits, so that sums and products wrap
        return static_cast<std::int32_t>(static_cast<std::uint32_t>(x));
    if (combine == Combine::max || combine == Combine::min) {
        const double rare[] = {std::numeric_limits<double>::quiet_NaN(),
                               -std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::infinity(), 0.0, -0.0};
        if ((x >> 20) % 64 < 5 || index % 11 == 0)
            return rare[index % 11 == 0 ? 3 + (x >> 8) % 2 : (x >> 20) % 64];
    }
    return (static_cast<double>(x >> 11) * 0x1p-53 - 0.5) * std::exp2(static_cast<double>(x % 8));
}

inline std::int32_t wrapped(Combine combine, std::int32_t a, std::int32_t b)
{
    const i64 x = a, y = b; // exact in 64 bits
    const i64 exact = combine == Combine::sum       ? x + y
                      : combine == Combine::product ? x * y
                      : combine == Combine::max     ? std::max(x, y)
                                                    : std::min(x, y);
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<u64>(exact)));
}

} // namespace trivium
