#pragma once
// Two numbers as bytes of FP8. device/cuda/fp8_pair.hpp has the same function.
#include "kernels/fp8.hpp"

#include <Kokkos_Core.hpp>

namespace trivium::kernels {
inline namespace on_teams {

/// `low` in the lower byte; see fp8_encode().
KOKKOS_INLINE_FUNCTION std::uint32_t fp8_pair(float low, float high, Fp8 format)
{
    return fp8_encode(low, format) | static_cast<std::uint32_t>(fp8_encode(high, format)) << 8;
}

} // namespace on_teams
} // namespace trivium::kernels
