#pragma once
// The runtime of CUDA for device/vendor.cpp; device/hip has the same names.
#include "kernels/device/cuda/check.hpp"

#define TRV_GPU(name) cuda##name
/// Calls cudaNAME and checks its status.
#define TRV_CHECK_GPU(name, ...) check_cuda(cuda##name(__VA_ARGS__), "cuda" #name)

namespace trivium::kernels {

inline void check_gpu(cudaError_t status, const char* call) { check_cuda(status, call); }
/// Why no device can be used, if the driver is missing; otherwise null.
const char* missing_driver();

} // namespace trivium::kernels
