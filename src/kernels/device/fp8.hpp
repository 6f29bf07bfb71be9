#pragma once
// Tensors stored as FP8 bytes, for products that read FP8.
#include "kernels/fp8.hpp"

namespace trivium::kernels {

/// Scaling data of an FP8 tensor, on the device. Aligned, because cuBLASLt refuses unaligned factors.
struct alignas(16) Fp8Found {
    float back;         ///< original value / FP8 value
    std::uint32_t amax; ///< largest magnitude, as the 16 bits of a bf16
};

/// y_rc = FP8 bytes of x_rc, scaled by fp8_scale(), or y_cr = their transpose; also writes `found`.
/// \pre rows and columns are multiples of 16 (otherwise InternalError), addresses are aligned to 16 bytes
void fp8_bytes(const Exec& exec, Fp8 format, i64 rows, i64 columns, const bf16* x_rc, bool transposed,
               std::uint8_t* y, Fp8Found* found);

} // namespace trivium::kernels
