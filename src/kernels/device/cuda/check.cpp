#include "kernels/device/cuda/check.hpp"

#include "base/check.hpp"

namespace trivium::kernels {

void check_cuda(cudaError_t status, const char* call)
{
    if (status != cudaSuccess)
        throw IoError({"CUDA", str(call, " failed"),
                       str(cudaGetErrorName(status), ": ", cudaGetErrorString(status)),
                       "see with `nvidia-smi` who uses the device; CUDA_LAUNCH_BLOCKING=1 names the kernel "
                       "that fails"});
}

} // namespace trivium::kernels
