#pragma once
// Not called on spaces of the host. device/cuda and device/hip have the same function.
#include <cstdint>

namespace trivium::kernels {

inline std::uint32_t of_lane_xor(std::uint32_t word, int) { return word; }

} // namespace trivium::kernels
