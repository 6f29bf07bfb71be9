#pragma once
// The two FP8 formats (Micikevicius et al. 2022, arXiv:2209.05433) and the conversion of a tensor.
//
// A tensor is scaled by the largest power of two for which its largest magnitude (amax) stays finite in the
// format, computed for each product ("current" scaling). Powers of two make scaling exact, so the rounded
// numbers are also bf16 numbers: a product of rounded bf16 tensors equals the product of FP8 bytes.
#include "kernels/exec.hpp"

#include <cstdint>
#include <math.h>

namespace trivium::kernels {

TRV_HOST_DEVICE constexpr int fp8_mantissa(Fp8 format) { return format == Fp8::e4m3 ? 3 : 2; }
TRV_HOST_DEVICE constexpr int fp8_bias(Fp8 format) { return format == Fp8::e4m3 ? 7 : 15; }
/// The encoding of the largest finite number.
TRV_HOST_DEVICE constexpr std::uint32_t fp8_largest(Fp8 format) { return format == Fp8::e4m3 ? 0x7e : 0x7b; }

/// Rounds to nearest, ties to even, and saturates; NaN stays NaN.
TRV_HOST_DEVICE inline std::uint8_t fp8_encode(float x, Fp8 format)
{
    const auto wide = __builtin_bit_cast(std::uint32_t, x);
    const std::uint32_t sign = wide >> 31 << 7, magnitude = wide & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return static_cast<std::uint8_t>(sign | 0x7f);
    const int mantissa = fp8_mantissa(format), smallest = 1 - fp8_bias(format), drop = 23 - mantissa;
    std::uint32_t code = 0;
    if (magnitude < static_cast<std::uint32_t>(127 + smallest) << 23) { // subnormal in the format
        const float step =
            __builtin_bit_cast(float, static_cast<std::uint32_t>(127 + smallest - mantissa) << 23);
        code = static_cast<std::uint32_t>(::rintf(__builtin_bit_cast(float, magnitude) / step));
    } else {
        const std::uint32_t rounded = magnitude + (1u << (drop - 1)) - 1 + (magnitude >> drop & 1u);
        code = (rounded >> drop) - (static_cast<std::uint32_t>(127 - fp8_bias(format)) << mantissa);
    }
    return static_cast<std::uint8_t>(sign | (code < fp8_largest(format) ? code : fp8_largest(format)));
}

TRV_HOST_DEVICE inline float fp8_decode(std::uint8_t code, Fp8 format)
{
    const int mantissa = fp8_mantissa(format);
    const std::uint32_t magnitude = code & 0x7fu, exponent = magnitude >> mantissa,
                        fraction = magnitude & ((1u << mantissa) - 1);
    if (magnitude > fp8_largest(format))
        return NAN;
    const int power = (exponent == 0 ? 1 : static_cast<int>(exponent)) - fp8_bias(format) - mantissa;
    const float step = __builtin_bit_cast(float, static_cast<std::uint32_t>(127 + power) << 23);
    const float value = static_cast<float>(exponent == 0 ? fraction : fraction + (1u << mantissa)) * step;
    return code & 0x80 ? -value : value;
}

/// The scale of a tensor with largest magnitude `amax`: a power of two in [2^-126, 2^126]; NaN if `amax` is
/// not finite, so that the error propagates.
TRV_HOST_DEVICE inline float fp8_scale(float amax, Fp8 format)
{
    const auto bits = __builtin_bit_cast(std::uint32_t, amax);
    if ((bits & 0x7fffffffu) >= 0x7f800000u)
        return NAN;
    // Both largest numbers are 1.75 times a power of two.
    const int power = static_cast<int>(bits >> 23) - 127 + ((bits & 0x7fffffu) > 0x600000u ? 1 : 0);
    const int scale = (format == Fp8::e4m3 ? 8 : 15) - power;
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(127 + (scale < -126  ? -126
                                                                       : scale > 126 ? 126
                                                                                     : scale))
                                         << 23);
}

/// Scratch of fp8_round(), in bytes.
inline constexpr Bytes fp8_scratch = 256;

/// y = x, each number rounded to the format under x's scale. y may be x. \throws InternalError on a device if
/// the scratch is smaller than fp8_scratch; the host needs none
void fp8_round(const Exec& exec, Fp8 format, i64 n, const bf16* x, bf16* y, Scratch scratch);

} // namespace trivium::kernels
