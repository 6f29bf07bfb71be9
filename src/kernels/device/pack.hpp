#pragma once
// Packs: neighbouring elements that one thread moves with one instruction of up to 16 bytes.
#include "kernels/exec.hpp"
#include "words.hpp"

#include <Kokkos_Core.hpp>

namespace trivium::kernels {
inline namespace on_teams {

/// `width` elements of T in registers. \pre addresses are aligned to the bytes of a pack
template <class T, int width>
struct Pack {
    using Words = PackWords<width* static_cast<int>(sizeof(T))>;
    T at[width];

    KOKKOS_FUNCTION static Pack of(const Words& words) { return __builtin_bit_cast(Pack, words); }
    KOKKOS_FUNCTION static Pack load(const T* from)
    {
        return of(load_words<static_cast<int>(sizeof(Words))>(from));
    }
    KOKKOS_FUNCTION void store(T* to) const { store_words(to, __builtin_bit_cast(Words, *this)); }
};

/// Elements of a pack when a kernel reads and writes arrays of these types together: 16 bytes of the largest
/// type.
template <class... T>
KOKKOS_FUNCTION constexpr int pack_width()
{
    std::size_t largest = 1;
    ((largest = sizeof(T) > largest ? sizeof(T) : largest), ...);
    return static_cast<int>(16 / largest);
}

/// [0, n) as `head` single elements, `packs` aligned packs, and single elements again.
struct Split {
    i64 head, packs;
};

/// The Split of n elements of each array. No packs if the arrays are aligned differently.
template <int width, class First, class... Rest>
KOKKOS_FUNCTION Split split(i64 n, const First* first, const Rest*... rest)
{
    const auto off = [](const auto* p) {
        return static_cast<int>(reinterpret_cast<std::uintptr_t>(p) / sizeof(*p) % width);
    };
    const int ahead = off(first);
    const bool alike = ((off(rest) == ahead) && ...);
    const i64 head = (width - ahead) % width;
    if (!alike || n < head)
        return {n, 0};
    return {head, (n - head) / width};
}

} // namespace on_teams
} // namespace trivium::kernels
