#pragma once
// The accelerator that this process drives: runtime/cuda for NVIDIA's, runtime/no_cuda for builds that have none.
#include "kernels/exec.hpp"

#include <memory>
#include <string>

namespace trivium {

/// Whether programs of this build run on a device.
bool computes_on_device();

/// Devices that this process can use: 0 where the build, the driver or the machine has none. Starts nothing.
int device_count();

/// What there is of a device's memory.
struct DeviceMemory {
    Bytes total = 0, free = 0;
};

/// One device.
class Device {
public:
    /// Makes device `index` the calling thread's.
    /// \throws UserError where there is no such device
    explicit Device(int index = 0);

    int index() const { return index_; }
    const std::string& name() const { return name_; }
    DeviceMemory memory() const;

private:
    int index_;
    std::string name_;
};

enum class StreamPriority { normal, high };

/// Work on a device in the order in which it is given, beside that of other streams.
/// \pre a kernels::Runtime lives as long
class Stream {
public:
    explicit Stream(const Device& device, StreamPriority priority = StreamPriority::normal);
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    ~Stream();

    /// Runs kernels on this stream; valid as long as the stream.
    kernels::Exec exec() const;
    /// The back-end's own stream (cudaStream_t), owned by this object.
    void* native() const;
    /// Returns when all that was given so far is done.
    /// \throws IoError where that failed
    void wait() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trivium
