#include "kernels/device/cuda_check.hpp"

#include "base/check.hpp"

namespace trivium::kernels {

void check_cuda(cudaError_t status, const char* call)
{
    if (status != cudaSuccess)
        throw IoError({"CUDA", str(call, " failed"), cudaGetErrorString(status),
                       "see what `nvidia-smi` says of the device and who uses it"});
}

int usable_devices(const char** reason)
{
    int count = 0; // untouched where the call fails
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess)
        cudaGetLastError(); // else the next check would find it
    if (reason)
        *reason = cudaGetErrorString(status == cudaSuccess && count == 0 ? cudaErrorNoDevice : status);
    return status == cudaSuccess ? count : 0;
}

} // namespace trivium::kernels
