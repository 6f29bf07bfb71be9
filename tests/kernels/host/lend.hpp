#pragma once
// Arrays that tests lend to a kernel, here without a copy. tests/device/lend.hpp has the same names for a
// device.
#include "kernels/exec.hpp"
#include "kernels/runtime.hpp"

#include <cstring>
#include <new>
#include <vector>

namespace trivium::kernels {

/// With more threads than any test asks for: Kokkos' parallel spaces start once.
inline void start_runtime() { static const Runtime runtime(1); }

/// Whether kernels run on a device, where training sizes are cheap.
inline constexpr bool on_device = false;

template <class T>
using Lent = T*;

/// x from element `offset` on, for the kernels of one statement. Afterwards x contains what they wrote.
template <class T>
T* lend(std::vector<T>& x, i64 offset = 0)
{
    return x.data() + offset;
}
template <class T>
const T* lend(const std::vector<T>& x, i64 offset = 0)
{
    return x.data() + offset;
}

/// Aligned scratch of exactly `size` bytes (an address sanitizer detects accesses beyond it).
class TestScratch {
public:
    explicit TestScratch(Bytes size)
        : size_(size), data_(::operator new(static_cast<std::size_t>(size), std::align_val_t(64)))
    {
        std::memset(data_, 0xff, static_cast<std::size_t>(size)); // NaN everywhere
    }
    TestScratch(const TestScratch&) = delete;
    TestScratch& operator=(const TestScratch&) = delete;
    ~TestScratch() { ::operator delete(data_, std::align_val_t(64)); }
    operator Scratch() const { return {data_, size_}; }

private:
    Bytes size_;
    void* data_;
};

} // namespace trivium::kernels
