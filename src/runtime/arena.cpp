#include "runtime/arena.hpp"

#include "base/address_space.hpp"
#include "base/check.hpp"
#include "base/host_memory.hpp"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace trivium {

Bytes available_memory() { return available_host_memory(); }

namespace {

/// The system grants more memory than it has and kills a process that uses it, so refuse in advance.
void require_memory(Bytes bytes)
{
    const Bytes available = available_memory();
    if (available >= 0 && bytes > available)
        throw IoError(
            {"arena",
             str("needs ", format_bytes(bytes), ", this machine has ", format_bytes(available), " available"),
             "the plan does not fit",
             "use a machine with more memory, or lower train.micro_batch; `trivium plan` shows the need"});
}

} // namespace

Arena::Arena(Bytes bytes) : size_(bytes), mapped_(round_up(bytes + slack, 4096))
{
    require_memory(bytes);
    require_address_space(mapped_ + room_for_libraries,
                          str("an arena of ", format_bytes(bytes), " and libraries"));
    void* memory = mmap(nullptr, static_cast<std::size_t>(mapped_), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        throw IoError(
            {"arena", str("the system refuses ", format_bytes(bytes)), std::strerror(errno),
             "request a node with more memory, or lower train.micro_batch; `trivium plan` shows the need"});
    data_ = static_cast<std::byte*>(memory);
    madvise(memory, static_cast<std::size_t>(mapped_),
            MADV_HUGEPAGE); // fewer page faults; a failure has no effect
    if constexpr (contracts_on)
        std::memset(data_, untouched, static_cast<std::size_t>(mapped_));
}

Arena::~Arena() { munmap(data_, static_cast<std::size_t>(mapped_)); }

void Arena::clear(Bytes offset, Bytes bytes) const
{
    std::memset(at(offset), 0, static_cast<std::size_t>(bytes));
}

Bytes Arena::high_water() const
{
    if constexpr (!contracts_on)
        return 0;
    Bytes end = mapped_;
    while (end > 0 && data_[end - 1] == std::byte{untouched})
        --end;
    return end;
}

bool HostWindow::in_place() { return true; }
std::byte* HostWindow::data() { return in_arena_; }
void HostWindow::pull() {}
void HostWindow::push() {}
void HostWindow::release() {}

} // namespace trivium
