#pragma once
// What a device does by itself for a collective: strided copies and sums, as kernels on a stream.
#include "mpi/collective_rounds.hpp"

#include <cuda_runtime_api.h>
#include <span>

namespace trivium {

/// \throws IoError with CUDA's own words where `status` is not success
void check_cuda_call(cudaError_t status, const char* call);

/// As copy_blocks(). Addresses and sizes must be multiples of 2.
void copy_on_device(std::span<const CopyBlock> blocks, cudaStream_t stream);
/// As combine_blocks(), with the device's exp and log1p for lse.
void combine_on_device(const Combination& combination, cudaStream_t stream);

} // namespace trivium
