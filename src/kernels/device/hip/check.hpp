#pragma once
// Checks every call of the HIP runtime.
#include "base/check.hpp"

#include <hip/hip_runtime_api.h>

namespace trivium::kernels {

/// \throws IoError with HIP's message if `status` is not success
inline void check_hip(hipError_t status, const char* call)
{
    if (status != hipSuccess)
        throw IoError({"HIP", str(call, " failed"), hipGetErrorString(status),
                       "run `rocm-smi` to see the state of the device and who uses it"});
}

} // namespace trivium::kernels
