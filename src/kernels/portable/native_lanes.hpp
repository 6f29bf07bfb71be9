#pragma once
// Exchange between neighbouring lanes, for execution spaces of the host, which never call it. device/cuda and
// device/hip have the same function.
#include <cstdint>

namespace trivium::kernels {

inline std::uint32_t of_lane_xor(std::uint32_t word, int) { return word; }

} // namespace trivium::kernels
