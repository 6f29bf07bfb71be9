#pragma once
// The one check for calls of the CUDA runtime.
#include <cuda_runtime_api.h>

namespace trivium::kernels {

/// \throws IoError with CUDA's own words where `status` is not success
void check_cuda(cudaError_t status, const char* call);

/// Devices that this process can use. Where there is none: 0, and why not in `reason` (unless null).
int usable_devices(const char** reason = nullptr);

} // namespace trivium::kernels
