#pragma once
// Wide loads and stores, one instruction each (the compiler does not merge stores of single elements), and
// how loops unroll. portable/words.hpp and tests/kernels/teams/words.hpp have the same names.
#include "base/units.hpp"

#include <Kokkos_Core.hpp>
#include <cstdlib>

#ifdef __CUDA_ARCH__
#define TRV_UNROLL _Pragma("unroll")
#define TRV_ROLLED _Pragma("unroll 1") // otherwise a strided loop begins with a division for its trip count
#else
#define TRV_UNROLL
#define TRV_ROLLED
#endif

namespace trivium::kernels {
inline namespace on_teams {

/// 16, 8, 4 or 2 bytes.
template <int bytes>
struct alignas(bytes) PackWords {
    std::uint32_t word[bytes / 4];
};
template <>
struct alignas(2) PackWords<2> {
    std::uint16_t word[1];
};

/// `from` must be global memory, aligned to the words.
template <int bytes>
KOKKOS_FUNCTION PackWords<bytes> load_words([[maybe_unused]] const void* from)
{
    KOKKOS_IF_ON_DEVICE((return *static_cast<const PackWords<bytes>*>(from);))
    KOKKOS_IF_ON_HOST((std::abort();))
}

KOKKOS_FUNCTION inline void store_words([[maybe_unused]] void* to, [[maybe_unused]] const PackWords<16>& from)
{
    KOKKOS_IF_ON_DEVICE((
        __stwb(static_cast<uint4*>(to), make_uint4(from.word[0], from.word[1], from.word[2], from.word[3]));))
}
KOKKOS_FUNCTION inline void store_words([[maybe_unused]] void* to, [[maybe_unused]] const PackWords<8>& from)
{
    KOKKOS_IF_ON_DEVICE((__stwb(static_cast<uint2*>(to), make_uint2(from.word[0], from.word[1]));))
}
KOKKOS_FUNCTION inline void store_words(void* to, const PackWords<4>& from)
{
    *static_cast<std::uint32_t*>(to) = from.word[0];
}
KOKKOS_FUNCTION inline void store_words(void* to, const PackWords<2>& from)
{
    *static_cast<std::uint16_t*>(to) = from.word[0];
}

} // namespace on_teams
} // namespace trivium::kernels
