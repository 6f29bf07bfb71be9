#pragma once
// Memory to registers and back, as src/kernels/portable/words.hpp; accesses that are invalid on a device
// end the program.
#include <Kokkos_Core.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define TRV_UNROLL
#define TRV_ROLLED

namespace trivium::kernels {
inline namespace on_teams {

template <int bytes>
struct alignas(bytes) PackWords {
    unsigned char byte[bytes];
};

inline void expect_aligned(const void* address, int bytes)
{
    if (reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(bytes) == 0)
        return;
    std::fprintf(stderr, "an access of %d bytes at %p\n", bytes, address);
    std::abort();
}

template <int bytes>
PackWords<bytes> load_words(const void* from)
{
    expect_aligned(from, bytes);
    PackWords<bytes> words;
    std::memcpy(&words, from, bytes);
    return words;
}

template <int bytes>
void store_words(void* to, const PackWords<bytes>& from)
{
    expect_aligned(to, bytes);
    std::memcpy(to, &from, bytes);
}

} // namespace on_teams
} // namespace trivium::kernels
