#include "runtime/cuda/staging.hpp"

#include "kernels/device/cuda_check.hpp"

#include <algorithm>
#include <cstring>

namespace trivium {

using kernels::check_cuda;

namespace {

constexpr Bytes half = staging_bytes / 2;

/// Two halves of pinned memory, each with the event of its last copy: while the device copies one, the host
/// fills or empties the other. Never destroyed, because the driver may be unloaded before static objects.
struct Staging {
    std::byte* memory[2] = {};
    cudaEvent_t over[2] = {};
    cudaStream_t stream = nullptr;

    Staging()
    {
        void* pinned = nullptr;
        check_cuda(cudaHostAlloc(&pinned, static_cast<std::size_t>(staging_bytes), cudaHostAllocDefault),
                   "cudaHostAlloc");
        check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
        for (int i = 0; i < 2; ++i) {
            memory[i] = static_cast<std::byte*>(pinned) + i * half;
            check_cuda(cudaEventCreateWithFlags(&over[i], cudaEventDisableTiming), "cudaEventCreate");
        }
    }
};

Staging& staging()
{
    static Staging& made = *new Staging;
    check_cuda(cudaDeviceSynchronize(), "the device's work");
    return made;
}

} // namespace

void copy_to_host(std::byte* to, const std::byte* on_device, Bytes bytes)
{
    Staging& s = staging();
    const auto size_at = [&](Bytes at) { return static_cast<std::size_t>(std::min(half, bytes - at)); };
    const auto begin = [&](Bytes at, int i) {
        check_cuda(
            cudaMemcpyAsync(s.memory[i], on_device + at, size_at(at), cudaMemcpyDeviceToHost, s.stream),
            "cudaMemcpyAsync");
        check_cuda(cudaEventRecord(s.over[i], s.stream), "cudaEventRecord");
    };
    if (bytes > 0)
        begin(0, 0);
    for (Bytes at = 0, i = 0; at < bytes; at += half, i ^= 1) {
        if (at + half < bytes)
            begin(at + half, static_cast<int>(i) ^ 1);
        check_cuda(cudaEventSynchronize(s.over[i]), "cudaEventSynchronize");
        std::memcpy(to + at, s.memory[i], size_at(at));
    }
}

void copy_to_device(std::byte* on_device, const std::byte* from, Bytes bytes)
{
    Staging& s = staging();
    for (Bytes at = 0, i = 0; at < bytes; at += half, i ^= 1) {
        const auto size = static_cast<std::size_t>(std::min(half, bytes - at));
        check_cuda(cudaEventSynchronize(s.over[i]), "cudaEventSynchronize"); // of the second-to-last copy
        std::memcpy(s.memory[i], from + at, size);
        check_cuda(cudaMemcpyAsync(on_device + at, s.memory[i], size, cudaMemcpyHostToDevice, s.stream),
                   "cudaMemcpyAsync");
        check_cuda(cudaEventRecord(s.over[i], s.stream), "cudaEventRecord");
    }
    check_cuda(cudaStreamSynchronize(s.stream), "cudaStreamSynchronize");
}

} // namespace trivium
