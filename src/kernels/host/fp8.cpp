#include "kernels/fp8.hpp"

#include <algorithm>

namespace trivium::kernels {

void fp8_round(const Exec& exec, Fp8 format, i64 n, const bf16* x, bf16* y, Scratch)
{
    // Magnitudes order as their bits do, NaN on top.
    std::uint32_t top = 0;
#pragma omp parallel for num_threads(exec.threads) reduction(max : top)
    for (i64 i = 0; i < n; ++i)
        top = std::max<std::uint32_t>(top, x[i].bits & 0x7fffu);
    const float scale = fp8_scale(__builtin_bit_cast(float, top << 16), format), back = 1 / scale;
#pragma omp parallel for num_threads(exec.threads)
    for (i64 i = 0; i < n; ++i)
        y[i] = bf16(fp8_decode(fp8_encode(x[i] * scale, format), format) * back);
}

} // namespace trivium::kernels
