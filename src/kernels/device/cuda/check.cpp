#include "kernels/device/cuda/check.hpp"

#include "base/check.hpp"

namespace trivium::kernels {

void check_cuda(cudaError_t status, const char* call)
{
    if (status != cudaSuccess)
        throw IoError({"CUDA", str(call, " failed"), cudaGetErrorString(status),
                       "run `nvidia-smi` to see the state of the device and who uses it"});
}

} // namespace trivium::kernels
