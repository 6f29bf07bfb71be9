#pragma once
// Tensors in FP8 as bytes, for products that take bytes.
#include "kernels/fp8.hpp"

namespace trivium::kernels {

/// Scaling data of an FP8 tensor, on the device. Aligned, because cuBLASLt refuses factors at other
/// addresses.
struct alignas(16) Fp8Found {
    float back;         ///< factor from FP8 values to the original ones
    std::uint32_t amax; ///< bits of the largest magnitude (bf16)
};

/// y_rc = bytes of x_rc under its own scale, or y_cr = its transpose; also writes `found`.
/// \pre rows and columns are multiples of 16, addresses aligned to 16 bytes
void fp8_bytes(const Exec& exec, Fp8 format, i64 rows, i64 columns, const bf16* x_rc, bool transposed,
               std::uint8_t* y, Fp8Found* found);

} // namespace trivium::kernels
