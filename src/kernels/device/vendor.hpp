#pragma once
// What Kokkos has no name for: the devices of a process, streams, events, graphs. cuda/vendor.cpp and
// hip/vendor.cpp implement it. Streams are the vendor's own (cudaStream_t, hipStream_t), as void*. \throws
// IoError with the vendor's message where nothing else is said
#include "base/units.hpp"

#include <string>

namespace trivium::kernels {

/// "NVIDIA GPU", "AMD GPU".
const char* device_kind();
/// A command that shows the devices and their users, and the variable that selects a process's devices.
const char* device_command();
const char* device_variable();
/// Sets the vendor's environment variables, unless the user has; before the first use of a device.
void prepare_vendor(int ranks);

/// Number of devices that this process can use. If 0, `reason` (unless null) gets the cause. Initialises
/// nothing.
int usable_devices(const char** reason = nullptr);

struct DeviceFacts {
    std::string name;
    std::string address;  ///< on the node, regardless of its index in a process
    std::string identity; ///< differs between any two devices
    Bytes cache = 0;      ///< the largest one
};
DeviceFacts facts_of(int device);

/// The calling thread's device.
int current_index();
void make_current(int device);

struct MemoryState {
    Bytes total = 0, free = 0;
};
/// Of the current device.
MemoryState memory_state();

/// Returns when all work of the current device is done.
void wait_for_device();
/// Whether the device has failed, so that any further call would end the process.
bool device_failed();
/// Forgets an error that a library has left behind and dealt with; one that ends the device's work remains.
void forget_error();
/// Throws if a launch has failed, or work before it.
void check_launches(const char* what);

/// A stream: its work runs in order, concurrently with that of other streams. Owned.
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

    /// It is reached when the work so far enqueued on `stream` is done.
    void record(void* stream);
    /// Later work of `stream` begins when the event, as last recorded, is reached.
    void hold(void* stream) const;
    /// Whether the event, as last recorded, is reached. \throws IoError if the device has failed
    bool reached() const;
    void wait() const;
    /// Time between two timed events that are reached.
    Seconds since(const DeviceEvent& earlier) const;

private:
    void* event_ = nullptr;
};

/// Work that is recorded instead of run, to be run any number of times.
class DeviceGraph {
public:
    /// From here on what this thread enqueues on `stream` is recorded. \pre each of its kernels has run once:
    /// Kokkos copies what a source file's kernels need before the first of them
    static void begin(void* stream);
    /// Of what has been enqueued since begin().
    explicit DeviceGraph(void* stream);
    DeviceGraph(DeviceGraph&& other) noexcept;
    DeviceGraph& operator=(DeviceGraph&&) = delete;
    ~DeviceGraph();

    void launch(void* stream) const;

private:
    void* graph_ = nullptr;
};

} // namespace trivium::kernels
