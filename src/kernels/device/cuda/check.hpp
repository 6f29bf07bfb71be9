#pragma once
// Checks every call of the CUDA runtime.
#include <cuda_runtime_api.h>

namespace trivium::kernels {

/// \throws IoError with CUDA's message if `status` is not success
void check_cuda(cudaError_t status, const char* call);

} // namespace trivium::kernels
