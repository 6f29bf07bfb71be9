#pragma once
// Alignment for wide copies.
#include <cstdint>

namespace trivium::kernels {

/// Whether all pointers are aligned to 16 bytes.
template <class... Pointers>
bool aligned(Pointers... pointers)
{
    return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

} // namespace trivium::kernels
