#pragma once
// Exchange between neighbouring lanes, by AMD's instructions. cuda/ and portable/ have the same function.
#include "base/bf16.hpp"

#include <cstdint>
#include <cstring>
#include <hip/hip_runtime.h>

namespace trivium::kernels {

/// The `value` of lane `lane ^ mask` of 32 neighbouring lanes, all of which call it. \pre mask < 32
template <class A>
TRV_HOST_DEVICE A of_lane_xor(A value, [[maybe_unused]] int mask)
{
    static_assert(sizeof(A) % 4 == 0);
#ifdef __HIP_DEVICE_COMPILE__
    std::uint32_t words[sizeof(A) / 4];
    memcpy(words, &value, sizeof(A));
#pragma unroll
    for (std::uint32_t& word : words)
        word = __shfl_xor(word, mask);
    memcpy(&value, words, sizeof(A));
#endif
    return value;
}

} // namespace trivium::kernels
