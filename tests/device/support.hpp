#pragma once
// Shared by the tests on a device.
#include "base/check.hpp"
#include "catch.hpp"
#include "kernels/device/cuda_check.hpp"
#include "kernels/runtime.hpp"
#include "runtime/device.hpp"

#include <cstdio>
#include <vector>

namespace trivium {

/// Starts Kokkos on the device; without one, prints why the test is skipped (CTest searches for the word).
inline bool device_ready()
{
    const char* reason = nullptr;
    if (kernels::usable_devices(&reason) == 0) {
        std::printf("skipped: no NVIDIA GPU (%s)\n", reason);
        return false;
    }
    static const kernels::Runtime runtime(1);
    return true;
}

/// An array on the device.
template <class T>
class DeviceArray {
public:
    explicit DeviceArray(const std::vector<T>& values) : size_(values.size())
    {
        void* memory = nullptr;
        kernels::check_cuda(cudaMalloc(&memory, size_ * sizeof(T)), "cudaMalloc");
        data_ = static_cast<T*>(memory);
        kernels::check_cuda(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice),
                            "cudaMemcpy");
        kernels::check_cuda(cudaDeviceSynchronize(),
                            "cudaMemcpy"); // streams do not wait for the default stream
    }
    explicit DeviceArray(i64 size) : DeviceArray(std::vector<T>(static_cast<std::size_t>(size))) {}
    DeviceArray(const DeviceArray&) = delete;
    DeviceArray& operator=(const DeviceArray&) = delete;
    ~DeviceArray() { cudaFree(data_); }

    T* data() const { return data_; }

    /// The content, after the work of `stream`.
    std::vector<T> read(const Stream& stream) const
    {
        stream.wait();
        std::vector<T> values(size_);
        kernels::check_cuda(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost),
                            "cudaMemcpy");
        return values;
    }

private:
    T* data_ = nullptr;
    std::size_t size_;
};

} // namespace trivium
