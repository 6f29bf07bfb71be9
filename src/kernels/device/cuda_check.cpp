#include "kernels/device/cuda_check.hpp"

#include "base/check.hpp"
#include "kernels/device/driver.hpp"

namespace trivium::kernels {

void check_cuda(cudaError_t status, const char* call)
{
    if (status != cudaSuccess)
        throw IoError({"CUDA", str(call, " failed"), cudaGetErrorString(status),
                       "run `nvidia-smi` to see the state of the device and who uses it"});
}

int usable_devices(const char** reason)
{
    if (!driver_installed()) { // CUDA would report a missing driver as an old one
        if (reason)
            *reason = "no driver (libcuda.so.1) is installed";
        return 0;
    }
    int count = 0; // unchanged if the call fails
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess)
        cudaGetLastError(); // otherwise the next check would report it
    if (reason)
        *reason = cudaGetErrorString(status == cudaSuccess && count == 0 ? cudaErrorNoDevice : status);
    return status == cudaSuccess ? count : 0;
}

} // namespace trivium::kernels
