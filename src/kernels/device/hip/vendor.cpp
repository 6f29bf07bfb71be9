#include "kernels/device/vendor.hpp"

#include "kernels/device/hip/check.hpp"

#include <cstdlib>
#include <unistd.h>
#include <utility>

namespace trivium::kernels {

namespace {

hipStream_t native(void* stream) { return static_cast<hipStream_t>(stream); }
hipEvent_t event(void* handle) { return static_cast<hipEvent_t>(handle); }

} // namespace

const char* device_kind() { return "AMD GPU"; }
const char* device_command() { return "rocm-smi"; }
const char* device_variable() { return "ROCR_VISIBLE_DEVICES"; }

void prepare_vendor(int)
{
    setenv("GPU_MAX_HW_QUEUES", "8", 0); // of 4: a stream that waits for a peer must not block another
}

int usable_devices(const char** reason)
{
    int count = 0; // unchanged if the call fails
    const hipError_t status = hipGetDeviceCount(&count);
    if (status != hipSuccess)
        static_cast<void>(hipGetLastError()); // otherwise the next check would report it
    if (reason)
        *reason = hipGetErrorString(status == hipSuccess && count == 0 ? hipErrorNoDevice : status);
    return status == hipSuccess ? count : 0;
}

DeviceFacts facts_of(int device)
{
    hipDeviceProp_t properties{};
    check_hip(hipGetDeviceProperties(&properties, device), "hipGetDeviceProperties");
    char bus[32] = "", host[256] = "";
    check_hip(hipDeviceGetPCIBusId(bus, sizeof bus, device), "hipDeviceGetPCIBusId");
    gethostname(host, sizeof host - 1);
    // Bus numbers may repeat on another node.
    return {properties.name, bus, std::string(host) + " " + bus, properties.l2CacheSize};
}

int current_index()
{
    int device = 0;
    check_hip(hipGetDevice(&device), "hipGetDevice");
    return device;
}

void make_current(int device) { check_hip(hipSetDevice(device), "hipSetDevice"); }

MemoryState memory_state()
{
    std::size_t free = 0, total = 0;
    check_hip(hipMemGetInfo(&free, &total), "hipMemGetInfo");
    return {static_cast<Bytes>(total), static_cast<Bytes>(free)};
}

void wait_for_device() { check_hip(hipDeviceSynchronize(), "the device's work"); }

bool device_failed()
{
    static_cast<void>(
        hipGetLastError()); // of a call, not of the device, whose error every later call returns
    std::size_t free = 0, total = 0;
    return hipMemGetInfo(&free, &total) != hipSuccess;
}

void forget_error() { static_cast<void>(hipGetLastError()); }

void check_launches(const char* what) { check_hip(hipPeekAtLastError(), what); }

NativeStream::NativeStream(bool high_priority)
{
    int least = 0, greatest = 0; // a smaller number is a higher priority, 0 the usual one
    check_hip(hipDeviceGetStreamPriorityRange(&least, &greatest), "hipDeviceGetStreamPriorityRange");
    hipStream_t made = nullptr;
    check_hip(hipStreamCreateWithPriority(&made, hipStreamNonBlocking, high_priority ? greatest : 0),
              "hipStreamCreate");
    stream_ = made;
}
NativeStream::~NativeStream() { static_cast<void>(hipStreamDestroy(native(stream_))); }
void NativeStream::wait() const { check_hip(hipStreamSynchronize(native(stream_)), "hipStreamSynchronize"); }

DeviceEvent::DeviceEvent(bool timed)
{
    hipEvent_t made = nullptr;
    check_hip(hipEventCreateWithFlags(&made, timed ? hipEventDefault : hipEventDisableTiming),
              "hipEventCreate");
    event_ = made;
}
DeviceEvent::DeviceEvent(DeviceEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
DeviceEvent::~DeviceEvent()
{
    if (event_)
        static_cast<void>(hipEventDestroy(event(event_)));
}
void DeviceEvent::record(void* stream)
{
    check_hip(hipEventRecord(event(event_), native(stream)), "hipEventRecord");
}
void DeviceEvent::hold(void* stream) const
{
    check_hip(hipStreamWaitEvent(native(stream), event(event_), 0), "hipStreamWaitEvent");
}
bool DeviceEvent::reached() const
{
    const hipError_t status = hipEventQuery(event(event_));
    if (status == hipErrorNotReady) {
        static_cast<void>(hipGetLastError()); // the next check of a launch would report it
        return false;
    }
    check_hip(status, "the device's work");
    return true;
}
void DeviceEvent::wait() const { check_hip(hipEventSynchronize(event(event_)), "the device's work"); }
Seconds DeviceEvent::since(const DeviceEvent& earlier) const
{
    float milliseconds = 0;
    check_hip(hipEventElapsedTime(&milliseconds, event(earlier.event_), event(event_)),
              "hipEventElapsedTime");
    return static_cast<Seconds>(milliseconds) / 1000;
}

void DeviceGraph::begin(void* stream)
{
    check_hip(hipStreamBeginCapture(native(stream), hipStreamCaptureModeThreadLocal),
              "hipStreamBeginCapture");
}
DeviceGraph::DeviceGraph(void* stream)
{
    hipGraph_t captured = nullptr;
    check_hip(hipStreamEndCapture(native(stream), &captured), "hipStreamEndCapture");
    hipGraphExec_t ready = nullptr;
    const hipError_t status = hipGraphInstantiate(&ready, captured, nullptr, nullptr, 0);
    static_cast<void>(hipGraphDestroy(captured));
    check_hip(status, "hipGraphInstantiate");
    graph_ = ready;
}
DeviceGraph::DeviceGraph(DeviceGraph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
DeviceGraph::~DeviceGraph()
{
    if (graph_)
        static_cast<void>(hipGraphExecDestroy(static_cast<hipGraphExec_t>(graph_)));
}
void DeviceGraph::launch(void* stream) const
{
    check_hip(hipGraphLaunch(static_cast<hipGraphExec_t>(graph_), native(stream)), "hipGraphLaunch");
}

} // namespace trivium::kernels
