// The arena of a build for GPUs: the device's memory.
#include "runtime/arena.hpp"

#include "base/check.hpp"
#include "kernels/device/cuda_check.hpp"
#include "runtime/cuda/staging.hpp"

#include <algorithm>

namespace trivium {

using kernels::check_cuda;

namespace {

constexpr int untouched = 0xA5;
constexpr Bytes slack = 4096; // after the arena, so that an overrun shows in high_water

} // namespace

Bytes available_memory()
{
    std::size_t free = 0, total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return static_cast<Bytes>(free);
}

Arena::Arena(Bytes bytes) : size_(bytes), mapped_(round_up(bytes + slack, 4096))
{
    const Bytes available = available_memory();
    void* memory = nullptr;
    if (const cudaError_t status = cudaMalloc(&memory, static_cast<std::size_t>(mapped_));
        status != cudaSuccess) {
        cudaGetLastError(); // otherwise the next check would report it
        throw IoError(
            {"arena",
             str("needs ", format_bytes(bytes), ", the device has ", format_bytes(available), " free"),
             cudaGetErrorString(status),
             "use a device with more memory, use more ranks, or lower train.micro_batch; `trivium plan` "
             "shows "
             "the need"});
    }
    data_ = static_cast<std::byte*>(memory);
    if constexpr (contracts_on)
        check_cuda(cudaMemset(data_, untouched, static_cast<std::size_t>(mapped_)), "cudaMemset");
}

Arena::~Arena() { cudaFree(data_); }

void Arena::clear(Bytes offset, Bytes bytes) const
{
    check_cuda(cudaDeviceSynchronize(), "the device's work");
    check_cuda(cudaMemset(at(offset), 0, static_cast<std::size_t>(bytes)), "cudaMemset");
    check_cuda(cudaDeviceSynchronize(), "cudaMemset"); // streams do not wait for the default stream
}

Bytes Arena::high_water() const
{
    if constexpr (!contracts_on)
        return 0;
    std::vector<std::byte> block(std::size_t{1} << 24);
    for (Bytes end = mapped_; end > 0;) {
        const Bytes begin = std::max<Bytes>(0, end - static_cast<Bytes>(block.size()));
        copy_to_host(block.data(), data_ + begin, end - begin);
        for (; end > begin; --end)
            if (block[static_cast<std::size_t>(end - begin - 1)] != std::byte{untouched})
                return end;
    }
    return 0;
}

HostWindow::HostWindow(const Arena& arena, Bytes offset, Bytes bytes)
    : in_arena_(arena.at(offset)), bytes_(bytes)
{
    TRV_CHECK(offset >= 0 && bytes >= 0 && offset + bytes <= arena.size(), "a window outside the arena");
}

bool HostWindow::in_place() { return false; }

std::byte* HostWindow::data()
{
    copy_.resize(static_cast<std::size_t>(bytes_));
    return copy_.data();
}

void HostWindow::pull() { copy_to_host(data(), in_arena_, bytes_); }
void HostWindow::push() { copy_to_device(in_arena_, data(), bytes_); }
void HostWindow::release() { std::vector<std::byte>().swap(copy_); }

} // namespace trivium
