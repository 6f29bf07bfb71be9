#include "kernels/device/vendor.hpp"

#include "vendor_api.hpp"

#include <cstdlib>
#include <unistd.h>

namespace trivium::kernels {

const char* device_kind() { return "AMD GPU"; }
const char* device_command() { return "rocm-smi"; }
const char* device_variable() { return "ROCR_VISIBLE_DEVICES"; }

void prepare_vendor(int)
{
    setenv("GPU_MAX_HW_QUEUES", "8", 0); // of 4: a stream that waits for a peer must not block another
}

const char* missing_driver() { return nullptr; } // the count of devices reports it

DeviceFacts facts_of(int device)
{
    hipDeviceProp_t properties{};
    TRV_CHECK_GPU(GetDeviceProperties, &properties, device);
    char bus[32] = "", host[256] = "";
    TRV_CHECK_GPU(DeviceGetPCIBusId, bus, sizeof bus, device);
    gethostname(host, sizeof host - 1);
    // Bus numbers may repeat on another node.
    return {properties.name, bus, std::string(host) + " " + bus, properties.l2CacheSize};
}

} // namespace trivium::kernels
