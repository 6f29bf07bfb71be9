#pragma once
// Two numbers as FP8 bytes, with one instruction. portable/fp8_pair.hpp has the same function.
#include "kernels/fp8.hpp"

#include <Kokkos_Core.hpp>
#include <cuda_fp8.h>

namespace trivium::kernels {
inline namespace on_teams {

/// `low` in the lower byte; see fp8_encode().
KOKKOS_INLINE_FUNCTION std::uint32_t fp8_pair(float low, float high, Fp8 format)
{
    return __nv_cvt_float2_to_fp8x2(float2{low, high}, __NV_SATFINITE,
                                    format == Fp8::e4m3 ? __NV_E4M3 : __NV_E5M2);
}

} // namespace on_teams
} // namespace trivium::kernels
