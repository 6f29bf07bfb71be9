#pragma once
// Internal: the words that a thread loads and stores at once. Part of words.hpp.
#include "base/units.hpp"

#include <Kokkos_Core.hpp>

namespace trivium::kernels {
inline namespace on_teams {

/// `bytes` is 16, 8, 4 or 2.
template <int bytes>
struct alignas(bytes) PackWords {
    std::uint32_t word[bytes / 4];
};
template <>
struct alignas(2) PackWords<2> {
    std::uint16_t word[1];
};

// \pre the address is aligned to `bytes`
template <int bytes>
KOKKOS_FUNCTION PackWords<bytes> load_words(const void* from)
{
    return *static_cast<const PackWords<bytes>*>(from);
}

template <int bytes>
KOKKOS_FUNCTION void store_words(void* to, const PackWords<bytes>& from)
{
    *static_cast<PackWords<bytes>*>(to) = from;
}

} // namespace on_teams
} // namespace trivium::kernels
