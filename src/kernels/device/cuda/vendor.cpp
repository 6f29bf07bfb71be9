#include "kernels/device/vendor.hpp"

#include "kernels/device/cuda/check.hpp"
#include "kernels/device/cuda/driver.hpp"

#include <cstdlib>
#include <utility>

namespace trivium::kernels {

namespace {

cudaStream_t native(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event(void* handle) { return static_cast<cudaEvent_t>(handle); }

} // namespace

const char* device_kind() { return "NVIDIA GPU"; }
const char* device_command() { return "nvidia-smi"; }
const char* device_variable() { return "CUDA_VISIBLE_DEVICES"; }

void prepare_vendor(int ranks)
{
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); // a stream that waits for a peer must not block another
    if (ranks > 1) // loading a kernel may wait for the device, and so for a peer
        setenv("CUDA_MODULE_LOADING", "EAGER", 0);
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

DeviceFacts facts_of(int device)
{
    cudaDeviceProp properties{};
    check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    char bus[32] = "";
    check_cuda(cudaDeviceGetPCIBusId(bus, sizeof bus, device), "cudaDeviceGetPCIBusId");
    // Bus numbers may repeat on another node; the UUID is unique.
    return {properties.name, bus, std::string(properties.uuid.bytes, sizeof properties.uuid.bytes),
            properties.l2CacheSize};
}

int current_index()
{
    int device = 0;
    check_cuda(cudaGetDevice(&device), "cudaGetDevice");
    return device;
}

void make_current(int device) { check_cuda(cudaSetDevice(device), "cudaSetDevice"); }

MemoryState memory_state()
{
    std::size_t free = 0, total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return {static_cast<Bytes>(total), static_cast<Bytes>(free)};
}

void wait_for_device() { check_cuda(cudaDeviceSynchronize(), "the device's work"); }

bool device_failed()
{
    cudaGetLastError(); // of a call, not of the device, whose error every later call returns
    std::size_t free = 0, total = 0;
    return cudaMemGetInfo(&free, &total) != cudaSuccess;
}

void forget_error() { cudaGetLastError(); }

void check_launches(const char* what) { check_cuda(cudaPeekAtLastError(), what); }

NativeStream::NativeStream(bool high_priority)
{
    int least = 0, greatest = 0; // a smaller number is a higher priority, 0 the usual one
    check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    cudaStream_t made = nullptr;
    check_cuda(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, high_priority ? greatest : 0),
               "cudaStreamCreate");
    stream_ = made;
}
NativeStream::~NativeStream() { cudaStreamDestroy(native(stream_)); }
void NativeStream::wait() const
{
    check_cuda(cudaStreamSynchronize(native(stream_)), "cudaStreamSynchronize");
}

DeviceEvent::DeviceEvent(bool timed)
{
    cudaEvent_t made = nullptr;
    check_cuda(cudaEventCreateWithFlags(&made, timed ? cudaEventDefault : cudaEventDisableTiming),
               "cudaEventCreate");
    event_ = made;
}
DeviceEvent::DeviceEvent(DeviceEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
DeviceEvent::~DeviceEvent()
{
    if (event_)
        cudaEventDestroy(event(event_));
}
void DeviceEvent::record(void* stream)
{
    check_cuda(cudaEventRecord(event(event_), native(stream)), "cudaEventRecord");
}
void DeviceEvent::hold(void* stream) const
{
    check_cuda(cudaStreamWaitEvent(native(stream), event(event_)), "cudaStreamWaitEvent");
}
bool DeviceEvent::reached() const
{
    const cudaError_t status = cudaEventQuery(event(event_));
    if (status == cudaErrorNotReady) {
        cudaGetLastError(); // the next check of a launch would report it
        return false;
    }
    check_cuda(status, "the device's work");
    return true;
}
void DeviceEvent::wait() const { check_cuda(cudaEventSynchronize(event(event_)), "the device's work"); }
Seconds DeviceEvent::since(const DeviceEvent& earlier) const
{
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, event(earlier.event_), event(event_)),
               "cudaEventElapsedTime");
    return static_cast<Seconds>(milliseconds) / 1000;
}

void DeviceGraph::begin(void* stream)
{
    check_cuda(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
}
DeviceGraph::DeviceGraph(void* stream)
{
    cudaGraph_t captured = nullptr;
    check_cuda(cudaStreamEndCapture(native(stream), &captured), "cudaStreamEndCapture");
    cudaGraphExec_t ready = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&ready, captured, 0);
    cudaGraphDestroy(captured);
    check_cuda(status, "cudaGraphInstantiate");
    graph_ = ready;
}
DeviceGraph::DeviceGraph(DeviceGraph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
DeviceGraph::~DeviceGraph()
{
    if (graph_)
        cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph_));
}
void DeviceGraph::launch(void* stream) const
{
    check_cuda(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph_), native(stream)), "cudaGraphLaunch");
}

} // namespace trivium::kernels
