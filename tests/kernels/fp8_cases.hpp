#pragma once
// FP8 from its definition, by search in the table of its numbers.
#include "kernels/fp8.hpp"
#include "support.hpp"

#include <algorithm>

namespace trivium::kernels {

struct Format {
    Fp8 kind;
    int exponent_bits, mantissa_bits, bias;
    double largest;
};
inline const Format formats[] = {{Fp8::e4m3, 4, 3, 7, 448}, {Fp8::e5m2, 5, 2, 15, 57344}};

/// The finite numbers from 0 on, by code, from the definition.
inline Doubles numbers(const Format& f)
{
    Doubles all;
    for (int code = 0; code < 128; ++code) {
        const int exponent = code >> f.mantissa_bits;
        const double fraction = (code & ((1 << f.mantissa_bits) - 1)) / std::pow(2.0, f.mantissa_bits);
        const double value = exponent == 0 ? fraction * std::pow(2.0, 1 - f.bias)
                                           : (1 + fraction) * std::pow(2.0, exponent - f.bias);
        if (value <= f.largest)
            all.push_back(value);
    }
    return all;
}

/// The nearest number by search; the even code if two are equally near.
inline double nearest(const Doubles& table, double x)
{
    std::size_t best = 0;
    for (std::size_t code = 1; code < table.size(); ++code) {
        const double size = std::min(std::abs(x), table.back()); // larger numbers become the largest one
        const double off = std::abs(table[code] - size), least = std::abs(table[best] - size);
        if (off < least || (off == least && code % 2 == 0))
            best = code;
    }
    return x < 0 ? -table[best] : table[best];
}

/// With the largest power of two as scale that keeps all numbers finite.
inline Doubles rounded(const Format& f, const Doubles& x)
{
    const Doubles table = numbers(f);
    double top = 0, scale = std::pow(2.0, -126);
    for (const double value : x)
        top = std::max(top, std::abs(value));
    while (top * scale * 2 <= f.largest && scale < std::pow(2.0, 126))
        scale *= 2;
    Doubles result;
    for (const double value : x)
        result.push_back(nearest(table, value * scale) / scale);
    return result;
}

} // namespace trivium::kernels
