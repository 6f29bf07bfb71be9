#pragma once
// The local work of a collective on a device: strided copies and sums, as kernels on a stream.
#include "mpi/collective_rounds.hpp"

#include <cuda_runtime_api.h>
#include <span>

namespace trivium {

/// \throws IoError with CUDA's message if `status` is not success
void check_cuda_call(cudaError_t status, const char* call);

/// See copy_blocks(). Addresses and sizes are multiples of 2.
void copy_on_device(std::span<const CopyBlock> blocks, cudaStream_t stream);
/// See combine_blocks(); with the device's exp and log1p for lse.
void combine_on_device(const Combination& combination, cudaStream_t stream);

} // namespace trivium
