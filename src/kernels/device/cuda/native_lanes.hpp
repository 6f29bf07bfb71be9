#pragma once
// Exchange between neighbouring lanes, by NVIDIA's instruction. hip/ and portable/ have the same function.
#include "base/bf16.hpp"

#include <cstdint>

namespace trivium::kernels {

/// The `word` of lane `lane ^ mask` of 32 neighbouring lanes, all of which call it. \pre mask < 32
TRV_HOST_DEVICE inline std::uint32_t of_lane_xor(std::uint32_t word, [[maybe_unused]] int mask)
{
#ifdef __CUDA_ARCH__
    word = __shfl_xor_sync(0xffffffffu, word, mask);
#endif
    return word;
}

} // namespace trivium::kernels
