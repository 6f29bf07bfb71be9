#include "driver.hpp"

#include <cuda.h>
#include <dlfcn.h>

namespace {

void* driver()
{
    static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    return library;
}

template <class Call, class... Args>
CUresult forward(const char* name, Args... args)
{
    void* const found = driver() ? dlsym(driver(), name) : nullptr;
    return found ? reinterpret_cast<Call>(found)(args...) : CUDA_ERROR_STUB_LIBRARY;
}

} // namespace

// All driver functions that Kokkos' CUDA back-end calls. A Kokkos that calls more links to the driver itself
// again.
extern "C" {

CUresult CUDAAPI cuCtxGetDevice(CUdevice* device)
{
    return forward<CUresult(CUDAAPI*)(CUdevice*)>("cuCtxGetDevice", device);
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext context) // _v2 by cuda.h
{
    return forward<CUresult(CUDAAPI*)(CUcontext)>("cuCtxPushCurrent_v2", context);
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext* context) // _v2 by cuda.h
{
    return forward<CUresult(CUDAAPI*)(CUcontext*)>("cuCtxPopCurrent_v2", context);
}

CUresult CUDAAPI cuStreamGetCtx(CUstream stream, CUcontext* context)
{
    return forward<CUresult(CUDAAPI*)(CUstream, CUcontext*)>("cuStreamGetCtx", stream, context);
}
}

namespace trivium::kernels {

bool driver_installed() { return driver() != nullptr; }

} // namespace trivium::kernels
