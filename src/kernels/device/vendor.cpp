// Devices, streams, events and graphs by the runtime of CUDA or HIP, whose names differ in the prefix alone
// (vendor_api.hpp).
#include "kernels/device/vendor.hpp"

#include "vendor_api.hpp"

#include <utility>

namespace trivium::kernels {

namespace {

TRV_GPU(Stream_t) native(void* stream) { return static_cast<TRV_GPU(Stream_t)>(stream); }
TRV_GPU(Event_t) event(void* handle) { return static_cast<TRV_GPU(Event_t)>(handle); }

} // namespace

int usable_devices(const char** reason)
{
    if (const char* missing = missing_driver()) {
        if (reason)
            *reason = missing;
        return 0;
    }
    int count = 0; // unchanged if the call fails
    const TRV_GPU(Error_t) status = TRV_GPU(GetDeviceCount)(&count);
    if (status != TRV_GPU(Success))
        forget_error(); // otherwise the next check would report it
    if (reason)
        *reason = TRV_GPU(GetErrorString)(status == TRV_GPU(Success) && count == 0 ? TRV_GPU(ErrorNoDevice)
                                                                                   : status);
    return status == TRV_GPU(Success) ? count : 0;
}

int current_index()
{
    int device = 0;
    TRV_CHECK_GPU(GetDevice, &device);
    return device;
}

void make_current(int device) { TRV_CHECK_GPU(SetDevice, device); }

MemoryState memory_state()
{
    std::size_t free = 0, total = 0;
    TRV_CHECK_GPU(MemGetInfo, &free, &total);
    return {static_cast<Bytes>(total), static_cast<Bytes>(free)};
}

void wait_for_device() { check_gpu(TRV_GPU(DeviceSynchronize)(), "the device's work"); }

bool device_failed()
{
    forget_error(); // of a call, not of the device, whose error every later call returns
    std::size_t free = 0, total = 0;
    return TRV_GPU(MemGetInfo)(&free, &total) != TRV_GPU(Success);
}

void forget_error() { static_cast<void>(TRV_GPU(GetLastError)()); }

void check_launches(const char* what) { check_gpu(TRV_GPU(PeekAtLastError)(), what); }

NativeStream::NativeStream(bool high_priority)
{
    int least = 0, greatest = 0; // a smaller number is a higher priority, 0 the usual one
    TRV_CHECK_GPU(DeviceGetStreamPriorityRange, &least, &greatest);
    TRV_GPU(Stream_t) made = nullptr;
    TRV_CHECK_GPU(StreamCreateWithPriority, &made, TRV_GPU(StreamNonBlocking), high_priority ? greatest : 0);
    stream_ = made;
}
NativeStream::~NativeStream() { static_cast<void>(TRV_GPU(StreamDestroy)(native(stream_))); }
void NativeStream::wait() const { TRV_CHECK_GPU(StreamSynchronize, native(stream_)); }

DeviceEvent::DeviceEvent(bool timed)
{
    TRV_GPU(Event_t) made = nullptr;
    TRV_CHECK_GPU(EventCreateWithFlags, &made, timed ? TRV_GPU(EventDefault) : TRV_GPU(EventDisableTiming));
    event_ = made;
}
DeviceEvent::DeviceEvent(DeviceEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
DeviceEvent::~DeviceEvent()
{
    if (event_)
        static_cast<void>(TRV_GPU(EventDestroy)(event(event_)));
}
void DeviceEvent::record(void* stream) { TRV_CHECK_GPU(EventRecord, event(event_), native(stream)); }
void DeviceEvent::hold(void* stream) const
{
    TRV_CHECK_GPU(StreamWaitEvent, native(stream), event(event_), 0);
}
bool DeviceEvent::reached() const
{
    const TRV_GPU(Error_t) status = TRV_GPU(EventQuery)(event(event_));
    if (status == TRV_GPU(ErrorNotReady)) {
        forget_error(); // the next check of a launch would report it
        return false;
    }
    check_gpu(status, "the device's work");
    return true;
}
void DeviceEvent::wait() const { check_gpu(TRV_GPU(EventSynchronize)(event(event_)), "the device's work"); }
Seconds DeviceEvent::since(const DeviceEvent& earlier) const
{
    float milliseconds = 0;
    TRV_CHECK_GPU(EventElapsedTime, &milliseconds, event(earlier.event_), event(event_));
    return static_cast<Seconds>(milliseconds) / 1000;
}

void DeviceGraph::begin(void* stream)
{
    TRV_CHECK_GPU(StreamBeginCapture, native(stream), TRV_GPU(StreamCaptureModeThreadLocal));
}
DeviceGraph::DeviceGraph(void* stream)
{
    TRV_GPU(Graph_t) captured = nullptr;
    TRV_CHECK_GPU(StreamEndCapture, native(stream), &captured);
    TRV_GPU(GraphExec_t) ready = nullptr;
    const TRV_GPU(Error_t) status = TRV_GPU(GraphInstantiateWithFlags)(&ready, captured, 0);
    static_cast<void>(TRV_GPU(GraphDestroy)(captured));
    check_gpu(status, "instantiating a graph");
    graph_ = ready;
}
DeviceGraph::DeviceGraph(DeviceGraph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
DeviceGraph::~DeviceGraph()
{
    if (graph_)
        static_cast<void>(TRV_GPU(GraphExecDestroy)(static_cast<TRV_GPU(GraphExec_t)>(graph_)));
}
void DeviceGraph::launch(void* stream) const
{
    TRV_CHECK_GPU(GraphLaunch, static_cast<TRV_GPU(GraphExec_t)>(graph_), native(stream));
}

} // namespace trivium::kernels
