#pragma once
// bfloat16 storage: the upper half of an IEEE binary32, rounded to nearest even.
// Arithmetic happens in float; this type only stores.
#include <cstdint>

#if defined(__CUDACC__) || defined(__HIP__)
#define TRV_HOST_DEVICE __host__ __device__
#else
#define TRV_HOST_DEVICE
#endif

namespace trivium {

struct bf16 {
    std::uint16_t bits;

    bf16() = default;
    TRV_HOST_DEVICE bf16(float value) : bits(round(value)) {}
    TRV_HOST_DEVICE operator float() const
    {
        const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
        return __builtin_bit_cast(float, wide);
    }

private:
    TRV_HOST_DEVICE static std::uint16_t round(float value)
    {
#ifdef __CUDA_ARCH__ // one instruction, which writes every NaN as 0x7fff
        std::uint16_t result;
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(value));
        return result;
#else
        const auto wide = __builtin_bit_cast(std::uint32_t, value);
        const std::uint32_t rounded = (wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16;
        const bool is_nan = (wide & 0x7fffffffu) > 0x7f800000u;
        // Keep NaN: rounding could turn it into infinity.
        return static_cast<std::uint16_t>(is_nan ? (wide >> 16 | 0x40u) : rounded);
#endif
    }
};

static_assert(sizeof(bf16) == 2);

} // namespace trivium
