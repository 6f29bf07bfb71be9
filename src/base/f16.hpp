#pragma once
// float16 storage: IEEE binary16, rounded to nearest even. Only files have it; this type only stores. Host
// only.
#include <bit>
#include <cstdint>

namespace trivium {

struct f16 {
    std::uint16_t bits;

    /// Numbers from this one on round to infinity.
    static constexpr float limit = 65520;

    f16() = default;
    explicit f16(float value) : bits(round(value)) {}
    operator float() const
    {
        const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16, exponent = bits >> 10 & 0x1f,
                            fraction = bits & 0x3ff;
        if (exponent == 0) // fraction times 2^-24
            return std::bit_cast<float>(
                sign | std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24f));
        const std::uint32_t wide = exponent == 0x1f ? 0xff : exponent - 15 + 127;
        return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
    }

private:
    static std::uint16_t round(float value)
    {
        const auto wide = std::bit_cast<std::uint32_t>(value), size = wide & 0x7fffffffu;
        std::uint32_t rounded = 0x7c00; // infinity
        if (size > 0x7f800000u)         // NaN
            rounded = 0x7e00;
        else if (size < 0x38800000u) // below 2^-14: 0.5 + size has the step of such numbers
            rounded = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3f000000u;
        else if (std::bit_cast<float>(size) < limit)
            rounded = (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13;
        return static_cast<std::uint16_t>((wide >> 16 & 0x8000u) | rounded);
    }
};

static_assert(sizeof(f16) == 2);

} // namespace trivium
