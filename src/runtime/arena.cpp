#include "runtime/arena.hpp"

#include "base/check.hpp"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace trivium {

namespace {

constexpr int untouched = 0xA5;
constexpr Bytes slack = 4096; // behind the arena, so that an overrun shows in high_water

} // namespace

Arena::Arena(Bytes bytes) : size_(bytes), mapped_(round_up(bytes + slack, 4096))
{
    void* memory = mmap(nullptr, static_cast<std::size_t>(mapped_), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        throw IoError({"arena", str("the system refuses ", format_bytes(bytes)), std::strerror(errno),
                       "ask for a node with more memory, or lower train.micro_batch; `trivium plan` shows the need"});
    data_ = static_cast<std::byte*>(memory);
    madvise(memory, static_cast<std::size_t>(mapped_), MADV_HUGEPAGE); // fewer page faults; a refusal does no harm
    if constexpr (contracts_on)
        std::memset(data_, untouched, static_cast<std::size_t>(mapped_));
}

Arena::~Arena() { munmap(data_, static_cast<std::size_t>(mapped_)); }

Bytes Arena::high_water() const
{
    if constexpr (!contracts_on)
        return 0;
    Bytes end = mapped_;
    while (end > 0 && data_[end - 1] == std::byte{untouched})
        --end;
    return end;
}

} // namespace trivium
