#pragma once
// Functions that Kokkos lacks: devices of a process, streams, events, graphs, over the vendor's runtime.
// Streams are the vendor's own (cudaStream_t, hipStream_t), as void*. \throws IoError with the vendor's
// message unless stated otherwise
#include "base/units.hpp"

#include <string>

namespace trivium::kernels {

/// "NVIDIA GPU" or "AMD GPU".
const char* device_kind();
/// The command that shows the devices and their users; the variable that selects a process's devices.
const char* device_command();
const char* device_variable();
/// Sets the vendor's environment variables for a run on `ranks` ranks, unless they are set. \pre no device
/// was used
void prepare_vendor(int ranks);

/// Number of devices that this process can use. If 0, `reason` (unless null) gets the cause. Does not throw;
/// initialises nothing.
int usable_devices(const char** reason = nullptr);

struct DeviceFacts {
    std::string name;
    std::string address;  ///< PCI bus address, regardless of its index in a process
    std::string identity; ///< differs between any two devices of all nodes
    Bytes cache = 0;      ///< L2 cache
};
DeviceFacts facts_of(int device);

/// Index of the calling thread's current device.
int current_index();
void make_current(int device);

struct MemoryState {
    Bytes total = 0, free = 0;
};
/// Memory of the current device.
MemoryState memory_state();

/// Returns when all work of the current device is done.
void wait_for_device();
/// Whether the device has failed, so that Kokkos' next call would end the process. Also calls forget_error().
bool device_failed();
/// Forgets a call's error that a library has left behind and handled; a failure of the device remains.
void forget_error();
/// Throws IoError if a launch or earlier work is known to have failed; does not wait. `what` names it.
void check_launches(const char* what);

/// Owns a stream of the current device: its work runs in order, concurrently with that of all other streams.
class NativeStream {
public:
    explicit NativeStream(bool high_priority = false);
    NativeStream(const NativeStream&) = delete;
    NativeStream& operator=(const NativeStream&) = delete;
    ~NativeStream();

    void* handle() const { return stream_; }
    /// Returns when all enqueued work is done.
    void wait() const;

private:
    void* stream_ = nullptr;
};

/// A point in the work of a stream.
class DeviceEvent {
public:
    explicit DeviceEvent(bool timed = false);
    DeviceEvent(DeviceEvent&& other) noexcept;
    DeviceEvent& operator=(DeviceEvent&&) = delete;
    ~DeviceEvent();

    /// The event is reached when the work enqueued on `stream` so far is done.
    void record(void* stream);
    /// Later work of `stream` waits until the event, as last recorded, is reached.
    void hold(void* stream) const;
    /// Whether the event, as last recorded, is reached. \throws IoError if the device has failed
    bool reached() const;
    /// The host waits until the event, as last recorded, is reached.
    void wait() const;
    /// Time from `earlier` to this event. \pre both are timed and reached
    Seconds since(const DeviceEvent& earlier) const;

private:
    void* event_ = nullptr;
};

/// A CUDA or HIP graph: work that is recorded once, to be run any number of times.
class DeviceGraph {
public:
    /// Begins capture: what this thread enqueues on `stream` is recorded instead of run. \pre each of its
    /// kernels has run once: Kokkos copies data before the first kernel of a source file
    static void begin(void* stream);
    /// Ends capture; holds the work enqueued since begin().
    explicit DeviceGraph(void* stream);
    DeviceGraph(DeviceGraph&& other) noexcept;
    DeviceGraph& operator=(DeviceGraph&&) = delete;
    ~DeviceGraph();

    void launch(void* stream) const;

private:
    void* graph_ = nullptr;
};

} // namespace trivium::kernels
