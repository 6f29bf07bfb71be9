#include "kernels/device/vendor.hpp"

#include "kernels/device/cuda/driver.hpp"
#include "vendor_api.hpp"

#include <cstdlib>

namespace trivium::kernels {

const char* device_kind() { return "NVIDIA GPU"; }
const char* device_command() { return "nvidia-smi"; }
const char* device_variable() { return "CUDA_VISIBLE_DEVICES"; }

void prepare_vendor(int ranks)
{
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); // a stream that waits for a peer must not block another
    if (ranks > 1) // loading a kernel may wait for the device, and so for a peer
        setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

// CUDA would report a missing driver as an old one.
const char* missing_driver()
{
    return driver_installed() ? nullptr : "no driver (libcuda.so.1) is installed";
}

DeviceFacts facts_of(int device)
{
    cudaDeviceProp properties{};
    TRV_CHECK_GPU(GetDeviceProperties, &properties, device);
    char bus[32] = "";
    TRV_CHECK_GPU(DeviceGetPCIBusId, bus, sizeof bus, device);
    // Bus numbers may repeat on another node; the UUID is unique.
    return {properties.name, bus, std::string(properties.uuid.bytes, sizeof properties.uuid.bytes),
            properties.l2CacheSize};
}

} // namespace trivium::kernels
