#pragma once
// Wide stores of one instruction each (the compiler does not merge stores of single elements), and unrolling
// of loops. portable/words.hpp and tests/kernels/teams/words.hpp have the same names.
#include "kernels/device/pack_words.hpp"

#ifdef __CUDA_ARCH__
#define TRV_UNROLL _Pragma("unroll")
#define TRV_ROLLED _Pragma("unroll 1") // otherwise a strided loop begins with a division for its trip count
#else
#define TRV_UNROLL
#define TRV_ROLLED
#endif

namespace trivium::kernels {
inline namespace on_teams {

KOKKOS_FUNCTION inline void store_words([[maybe_unused]] void* to, [[maybe_unused]] const PackWords<16>& from)
{
    KOKKOS_IF_ON_DEVICE((
        __stwb(static_cast<uint4*>(to), make_uint4(from.word[0], from.word[1], from.word[2], from.word[3]));))
}
KOKKOS_FUNCTION inline void store_words([[maybe_unused]] void* to, [[maybe_unused]] const PackWords<8>& from)
{
    KOKKOS_IF_ON_DEVICE((__stwb(static_cast<uint2*>(to), make_uint2(from.word[0], from.word[1]));))
}
} // namespace on_teams
} // namespace trivium::kernels
