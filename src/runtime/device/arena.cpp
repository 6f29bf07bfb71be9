// The arena of a build for GPUs: the device's memory.
#include "runtime/arena.hpp"

#include "base/check.hpp"
#include "kernels/device/fill.hpp"
#include "kernels/device/memory.hpp"
#include "kernels/device/vendor.hpp"
#include "runtime/device/staging.hpp"

#include <algorithm>

namespace trivium {

Bytes available_memory() { return kernels::memory_state().free; }

Arena::Arena(Bytes bytes) : size_(bytes), mapped_(round_up(bytes + slack, 4096))
{
    const Bytes available = available_memory();
    std::string reason;
    data_ = kernels::allocate_on_device("arena", mapped_, reason);
    if (!data_)
        throw IoError(
            {"arena",
             str("needs ", format_bytes(bytes), ", the device has ", format_bytes(available), " free"),
             reason,
             "use a device with more memory, use more ranks, or lower train.micro_batch; `trivium plan` "
             "shows the need"});
    if constexpr (contracts_on) {
        kernels::fill({}, data_, untouched, mapped_);
        kernels::wait_for_device();
    }
}

Arena::~Arena() { kernels::free_on_device("arena", data_, mapped_); }

void Arena::clear(Bytes offset, Bytes bytes) const
{
    kernels::wait_for_device();
    kernels::fill({}, at(offset), 0, bytes);
    kernels::wait_for_device(); // streams do not wait for the default stream
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
