#pragma once
// Shared by the tests on a device.
#include "base/check.hpp"
#include "catch.hpp"
#include "kernels/device/memory.hpp"
#include "kernels/device/vendor.hpp"
#include "kernels/runtime.hpp"
#include "runtime/device.hpp"
#include "runtime/device/staging.hpp"

#include <cstdio>
#include <functional>
#include <vector>

namespace trivium {

/// Starts Kokkos on the device; without one, prints why the test is skipped (CTest searches for the word).
inline bool device_ready()
{
    const char* reason = nullptr;
    if (kernels::usable_devices(&reason) == 0) {
        std::printf("skipped: no %s (%s)\n", kernels::device_kind(), reason);
        return false;
    }
    static const kernels::Runtime runtime(1);
    return true;
}

/// An array on the device.
template <class T>
class DeviceArray {
public:
    explicit DeviceArray(const std::vector<T>& values)
        : size_(values.size()), block_("an array", std::max<Bytes>(1, bytes()))
    {
        copy_to_device(block_.data(), reinterpret_cast<const std::byte*>(values.data()), bytes());
    }
    explicit DeviceArray(i64 size) : DeviceArray(std::vector<T>(static_cast<std::size_t>(size))) {}

    T* data() const { return reinterpret_cast<T*>(block_.data()); }
    std::size_t size() const { return size_; }

    /// The content, after the work of `stream`.
    std::vector<T> read(const Stream& stream) const
    {
        stream.wait();
        std::vector<T> values(size_);
        copy_to_host(reinterpret_cast<std::byte*>(values.data()), block_.data(), bytes());
        return values;
    }

private:
    Bytes bytes() const { return static_cast<Bytes>(size_ * sizeof(T)); }

    std::size_t size_;
    kernels::DeviceBlock block_;
};

/// Captures the work that `work` enqueues on the stream as a graph and runs it `times` times.
inline void run_recorded(const Stream& stream, const std::function<void()>& work, int times = 1)
{
    kernels::DeviceGraph::begin(stream.native());
    work();
    const kernels::DeviceGraph graph(stream.native());
    for (int i = 0; i < times; ++i)
        graph.launch(stream.native());
    stream.wait();
}

} // namespace trivium
