#include "runtime/device/staging.hpp"

#include "kernels/device/memory.hpp"
#include "kernels/device/vendor.hpp"
#include "runtime/device.hpp"

#include <algorithm>
#include <cstring>

namespace trivium {

namespace {

constexpr Bytes half = staging_bytes / 2;

/// Two halves of pinned memory, each with the event of its last copy: while the device copies one, the host
/// fills or empties the other. Never destroyed, because the driver may be unloaded before static objects.
struct Staging {
    kernels::PinnedBlock memory[2] = {{"staging", half}, {"staging", half}};
    kernels::DeviceEvent over[2];
    Stream stream{current_device()};

    void record(int i) { over[i].record(stream.native()); }
};

Staging& staging()
{
    static Staging& made = *new Staging;
    kernels::wait_for_device();
    return made;
}

} // namespace

void copy_to_host(std::byte* to, const std::byte* on_device, Bytes bytes)
{
    Staging& s = staging();
    const auto size_at = [&](Bytes at) { return std::min(half, bytes - at); };
    const auto begin = [&](Bytes at, int i) {
        kernels::copy_from_device(s.stream.exec(), s.memory[i].data(), on_device + at, size_at(at));
        s.record(i);
    };
    if (bytes > 0)
        begin(0, 0);
    for (Bytes at = 0, i = 0; at < bytes; at += half, i ^= 1) {
        if (at + half < bytes)
            begin(at + half, static_cast<int>(i) ^ 1);
        s.over[i].wait();
        std::memcpy(to + at, s.memory[i].data(), static_cast<std::size_t>(size_at(at)));
    }
}

void copy_to_device(std::byte* on_device, const std::byte* from, Bytes bytes)
{
    Staging& s = staging();
    for (Bytes at = 0, i = 0; at < bytes; at += half, i ^= 1) {
        const Bytes size = std::min(half, bytes - at);
        s.over[i].wait(); // of the second-to-last copy
        std::memcpy(s.memory[i].data(), from + at, static_cast<std::size_t>(size));
        kernels::copy_to_device(s.stream.exec(), on_device + at, s.memory[i].data(), size);
        s.record(static_cast<int>(i));
    }
    s.stream.wait();
}

} // namespace trivium
