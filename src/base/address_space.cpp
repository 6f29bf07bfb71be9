#include "base/address_space.hpp"

#include "base/check.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <sys/mman.h>
#include <sys/resource.h>
#include <system_error>

namespace trivium {

void require_address_space(Bytes bytes, const std::string& purpose)
{
    const auto size = static_cast<std::size_t>(round_up(bytes, 4096));
    void* const probe =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (probe != MAP_FAILED) {
        munmap(probe, size);
        return;
    }
    const std::string reason = std::strerror(errno);
    rlimit limit{};
    const bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    throw IoError(
        {"memory", str("the system refuses ", format_bytes(bytes), " for ", purpose),
         limited ? str("the limit of address space is ", format_bytes(static_cast<Bytes>(limit.rlim_cur)),
                       " (ulimit -v)")
                 : reason,
         limited ? "raise the limit (ulimit -v, or the batch system's limit of virtual memory), or run on "
                   "more ranks; `trivium plan` shows the need"
                 : "use a node with more memory, or run on more ranks; `trivium plan` shows the need"});
}

std::string describe_exception(const std::exception& error)
{
    const auto* system = dynamic_cast<const std::system_error*>(&error);
    const bool refused = system && (system->code() == std::errc::resource_unavailable_try_again ||
                                    system->code() == std::errc::not_enough_memory);
    if (refused || dynamic_cast<const std::bad_alloc*>(&error))
        return str("out of memory", refused ? " or threads" : "", "\n  reason: ", error.what(),
                   "\n  remedy: raise the limits of this process (ulimit -v, ulimit -u), or use a machine "
                   "with more memory; `trivium plan` shows what a run needs");
    if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
        return str(file->path1().string(), ": cannot be accessed\n  reason: ", file->code().message(),
                   "\n  remedy: check the path and its permissions");
    return str("internal error: ", error.what());
}

} // namespace trivium
