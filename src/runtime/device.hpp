#pragma once
// The accelerator that this process drives: runtime/cuda for NVIDIA's, runtime/no_cuda for builds that have
// none.
#include "kernels/exec.hpp"
#include "kernels/runtime.hpp"
#include "mpi/grid.hpp"

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

/// What a rank computes on, ready for Executors: the libraries behind the kernels and, in builds for devices,
/// its device (ranks of a node take theirs in turn), joined to those of the other ranks.
class Computing {
public:
    /// All ranks of `grid`, which outlives it, make one; null: this process is alone.
    /// \throws UserError where there is no device
    explicit Computing(int threads, Grid* grid = nullptr);
    Computing(const Computing&) = delete;
    Computing& operator=(const Computing&) = delete;
    ~Computing();

    /// "NVIDIA H200"; empty where the host computes.
    const std::string& device() const { return device_; }
    /// Identifies the device on its node: ranks that have the same one share its memory. Empty on the host.
    const std::string& address() const { return address_; }
    /// Of the device; nothing where the host computes.
    DeviceMemory memory() const;

private:
    std::string device_, address_;
    std::unique_ptr<kernels::Runtime> runtime_;
};

/// One device.
class Device {
public:
    /// Makes device `index` the calling thread's.
    /// \throws UserError where there is no such device
    explicit Device(int index = 0);

    int index() const { return index_; }
    const std::string& name() const { return name_; }
    /// Identifies it on its node, whatever its number in a process.
    const std::string& address() const { return address_; }

private:
    int index_;
    std::string name_, address_;
};

/// The calling thread's. \throws UserError where there is none
Device current_device();

enum class StreamPriority { normal, high };

/// Work on a device in the order in which it is given, concurrently with that of other streams. A Computing
/// must outlive it.
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
