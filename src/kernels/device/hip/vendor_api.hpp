#pragma once
// The runtime of HIP for device/vendor.cpp; device/cuda has the same names.
#include "base/check.hpp"

#include <hip/hip_runtime_api.h>

#define TRV_GPU(name) hip##name
/// Calls hipNAME and checks its status.
#define TRV_CHECK_GPU(name, ...) check_gpu(hip##name(__VA_ARGS__), "hip" #name)

namespace trivium::kernels {

/// \throws IoError with HIP's message if `status` is not success
inline void check_gpu(hipError_t status, const char* call)
{
    if (status != hipSuccess)
        throw IoError({"HIP", str(call, " failed"), hipGetErrorString(status),
                       "run `rocm-smi` to see the state of the device and who uses it"});
}
/// Why no device can be used, if the driver is missing; otherwise null.
const char* missing_driver();

} // namespace trivium::kernels
