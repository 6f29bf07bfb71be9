#include "kernels/fp8.hpp"

#include "row_parallel.hpp"

#include <algorithm>

namespace trivium::kernels {

void fp8_round(const Exec& exec, Fp8 format, i64 n, const bf16* x, bf16* y, Scratch)
{
    // Magnitudes compare like their bits, with NaN as the largest.
    std::atomic<std::uint32_t> amax{0};
    for_parts(exec, "fp8_amax", n, 1024, [&](i64 begin, i64 end) {
        std::uint32_t part = 0;
        for (i64 i = begin; i < end; ++i)
            part = std::max<std::uint32_t>(part, x[i].bits & 0x7fffu);
        for (std::uint32_t before = amax; part > before && !amax.compare_exchange_weak(before, part);)
            ;
    });
    const float scale = fp8_scale(__builtin_bit_cast(float, amax << 16), format), back = 1 / scale;
    for_parts(exec, "fp8_round", n, 1024, [&](i64 begin, i64 end) {
        for (i64 i = begin; i < end; ++i)
            y[i] = bf16(fp8_decode(fp8_encode(x[i] * scale, format), format) * back);
    });
}

} // namespace trivium::kernels
