#pragma once
// Arrays that tests lend to a kernel: temporary copies on the device, between guards that must not be
// written. tests/kernels/host/lend.hpp has the same names for the host.
#include "catch.hpp"
#include "kernels/device/cuda_check.hpp"
#include "kernels/exec.hpp"
#include "kernels/runtime.hpp"

#include <algorithm>
#include <cuda_runtime_api.h>
#include <map>
#include <memory>
#include <type_traits>
#include <vector>

namespace trivium::kernels {

/// Starts Kokkos on the device. Without a device, the program has already reported it and ended.
inline void start_runtime() { static const Runtime runtime(1); }

inline constexpr bool on_device = true;

/// Memory on the device: a copy of host memory, or scratch.
class Mirror {
public:
    Mirror(const void* host, std::size_t bytes) : bytes_(bytes)
    {
        void* memory = nullptr;
        check_cuda(cudaMalloc(&memory, bytes + 2 * guard), "cudaMalloc");
        memory_ = static_cast<char*>(memory);
        check_cuda(cudaMemset(memory_, 0xff, bytes + 2 * guard), "cudaMemset"); // NaN everywhere
        if (host)
            check_cuda(cudaMemcpy(data(), host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    }
    Mirror(const Mirror&) = delete;
    Mirror& operator=(const Mirror&) = delete;
    ~Mirror()
    {
        std::vector<char> all(bytes_ + 2 * guard);
        const cudaError_t status = cudaDeviceSynchronize();
        if (status != cudaSuccess ||
            cudaMemcpy(all.data(), memory_, all.size(), cudaMemcpyDeviceToHost) != cudaSuccess) {
            FAIL_CHECK("a kernel failed: " << cudaGetErrorString(status));
            return;
        }
        cudaFree(memory_);
        for (std::size_t i = 0; i < guard; ++i)
            if (all[i] != '\xff' || all[guard + bytes_ + i] != '\xff') {
                FAIL_CHECK("a kernel wrote beside an array of " << bytes_ << " bytes");
                break;
            }
        if (back_)
            std::copy_n(all.data() + guard, bytes_, static_cast<char*>(back_));
    }

    char* data() const { return memory_ + guard; }
    /// At the end the content is copied to `host`.
    void returns_to(void* host) { back_ = host; }

    /// The copy of the memory at `host`: the current one, or a new one.
    static std::shared_ptr<Mirror> of(const void* host, std::size_t bytes)
    {
        static std::map<const void*, std::weak_ptr<Mirror>> lent;
        std::shared_ptr<Mirror> mirror = lent[host].lock();
        if (!mirror || mirror->bytes_ != bytes)
            lent[host] = mirror = std::make_shared<Mirror>(host, bytes);
        return mirror;
    }

private:
    static constexpr std::size_t guard = 256;
    std::size_t bytes_;
    char* memory_ = nullptr;
    void* back_ = nullptr;
};

/// A pointer into an array that is lent during the lifetime of this object.
template <class T>
class Lent {
public:
    template <class Vector>
    Lent(Vector& x, i64 offset) : offset_(offset)
    {
        if (x.empty())
            return;
        mirror_ = Mirror::of(x.data(), x.size() * sizeof(T));
        if constexpr (!std::is_const_v<T>)
            mirror_->returns_to(x.data());
    }
    operator T*() const { return mirror_ ? reinterpret_cast<T*>(mirror_->data()) + offset_ : nullptr; }

private:
    std::shared_ptr<Mirror> mirror_;
    i64 offset_;
};

template <class T>
Lent<T> lend(std::vector<T>& x, i64 offset = 0)
{
    return {x, offset};
}
template <class T>
Lent<const T> lend(const std::vector<T>& x, i64 offset = 0)
{
    return {x, offset};
}

class TestScratch {
public:
    explicit TestScratch(Bytes size) : size_(size), memory_(nullptr, static_cast<std::size_t>(size)) {}
    operator Scratch() const { return {memory_.data(), size_}; }

private:
    Bytes size_;
    Mirror memory_;
};

} // namespace trivium::kernels
