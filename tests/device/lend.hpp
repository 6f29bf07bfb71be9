#pragma once
// Arrays that tests lend to a kernel: temporary copies on the device, between guards that must not be
// written. tests/kernels/host/lend.hpp has the same names for the host.
#include "catch.hpp"
#include "kernels/device/fill.hpp"
#include "kernels/device/memory.hpp"
#include "kernels/device/vendor.hpp"
#include "kernels/exec.hpp"
#include "kernels/runtime.hpp"
#include "runtime/device/staging.hpp"

#include <algorithm>
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
    Mirror(const void* host, std::size_t bytes)
        : bytes_(static_cast<Bytes>(bytes)), memory_("an array under test", bytes_ + 2 * guard)
    {
        fill({}, memory_.data(), 0xff, memory_.size()); // NaN everywhere
        if (host)
            trivium::copy_to_device(memory_.data() + guard, static_cast<const std::byte*>(host), bytes_);
    }
    Mirror(const Mirror&) = delete;
    Mirror& operator=(const Mirror&) = delete;
    ~Mirror()
    {
        std::vector<std::byte> all(static_cast<std::size_t>(memory_.size()));
        try {
            trivium::copy_to_host(all.data(), memory_.data(), memory_.size());
        } catch (const IoError& error) {
            FAIL_CHECK("a kernel failed: " << error.what());
            return;
        }
        const auto at = [&](Bytes i) { return all[static_cast<std::size_t>(i)]; };
        for (Bytes i = 0; i < guard; ++i)
            if (at(i) != std::byte{0xff} || at(guard + bytes_ + i) != std::byte{0xff}) {
                FAIL_CHECK("a kernel wrote beside an array of " << bytes_ << " bytes");
                break;
            }
        if (back_)
            std::copy_n(all.data() + guard, bytes_, static_cast<std::byte*>(back_));
    }

    std::byte* data() const { return memory_.data() + guard; }
    /// At the end the content is copied to `host`.
    void returns_to(void* host) { back_ = host; }

    /// The copy of the memory at `host`: the current one, or a new one.
    static std::shared_ptr<Mirror> of(const void* host, std::size_t bytes)
    {
        static std::map<const void*, std::weak_ptr<Mirror>> lent;
        std::shared_ptr<Mirror> mirror = lent[host].lock();
        if (!mirror || mirror->bytes_ != static_cast<Bytes>(bytes))
            lent[host] = mirror = std::make_shared<Mirror>(host, bytes);
        return mirror;
    }

private:
    static constexpr Bytes guard = 256;
    Bytes bytes_;
    DeviceBlock memory_;
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
