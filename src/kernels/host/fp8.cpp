#include "kernels/fp8.hpp"

#include <algorithm>

namespace trivium::kernels {

void fp8_round(const Exec& exec, Fp8 format, i64 n, const bf16* x, bf16* y, Scratch)
{
    // Magnitudes compare like their bits, with NaN as the largest.
    std::uint32_t amax = 0;
#pragma omp parallel for num_threads(exec.threads) reduction(max : amax)
    for (i64 i = 0; i < n; ++i)
        amax = std::max<std::uint32_t>(amax, x[i].bits & 0x7fffu);
    const float scale = fp8_scale(__builtin_bit_cast(float, amax << 16), format), back = 1 / scale;
#pragma omp parallel for num_threads(exec.threads)
    for (i64 i = 0; i < n; ++i)
        y[i] = bf16(fp8_decode(fp8_encode(x[i] * scale, format), format) * back);
}

} // namespace trivium::kernels
