#pragma once
// The accelerator of this process: runtime/device for GPUs, runtime/no_device for builds without.
#include "kernels/exec.hpp"
#include "kernels/runtime.hpp"
#include "mpi/grid.hpp"

#include <memory>
#include <string>

namespace trivium {

/// Whether programs of this build run on a device.
bool computes_on_device();

/// Number of devices that this process can use: 0 if the build, the driver or the machine has none.
/// Initialises nothing.
int device_count();

/// The memory of a device.
struct DeviceMemory {
    Bytes total = 0, free = 0;
};

/// Initialises the libraries behind the kernels and, in builds for devices, the rank's device (the ranks of a
/// node take its devices in turn) and its communicators. It must outlive Executors and Streams.
class Computing {
public:
    /// All ranks of `grid` make one; the grid must outlive it. Null: a single rank.
    /// \throws UserError on all ranks if one of them needs a device and finds none, IoError if the address
    /// space is too small for the threads' stacks
    explicit Computing(int threads, Grid* grid = nullptr);
    Computing(const Computing&) = delete;
    Computing& operator=(const Computing&) = delete;
    ~Computing();

    /// "NVIDIA H200"; empty if the host computes.
    const std::string& device() const { return device_; }
    /// Identifies the device on its node: ranks with the same address share its memory. Empty on the host.
    const std::string& address() const { return address_; }
    /// The device's memory; zeros if the host computes.
    DeviceMemory memory() const;

private:
    std::string device_, address_;
    std::unique_ptr<kernels::Runtime> runtime_;
};

/// A device that this process can use.
class Device {
public:
    /// Makes device `index` current for the calling thread.
    /// \throws UserError if there is no such device
    explicit Device(int index = 0);

    int index() const { return index_; }
    const std::string& name() const { return name_; }
    /// Identifies the device on its node, regardless of its index in a process.
    const std::string& address() const { return address_; }

private:
    int index_;
    std::string name_, address_;
};

/// The calling thread's current device. \throws UserError or IoError if there is none
Device current_device();

enum class StreamPriority { normal, high };

/// A stream: runs work on a device in the order in which it is enqueued, concurrently with other streams. A
/// Computing must outlive it.
class Stream {
public:
    explicit Stream(const Device& device, StreamPriority priority = StreamPriority::normal);
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    ~Stream();

    /// For kernels on this stream; valid during its lifetime.
    kernels::Exec exec() const;
    /// The back-end's own stream (cudaStream_t, hipStream_t), owned by this object.
    void* native() const;
    /// Returns when all enqueued work is done.
    /// \throws IoError if the work or the device has failed
    void wait() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trivium
