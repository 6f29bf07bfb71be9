#include "io/files/in_child.hpp"

#include "base/clock.hpp"
#include "base/helper_process.hpp"
#include "io/files/files.hpp"
#include "io/files/hdf5_library.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <new>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace trivium {

namespace {

constexpr rlim_t most_seconds = 10, most_memory = rlim_t{1} << 30;
/// A child that does nothing for so long waits for a lock that another thread of the parent held.
constexpr Seconds most_waiting = 20;

/// Of this process.
rlim_t address_space()
{
    std::ifstream file("/proc/self/statm");
    rlim_t pages = 0;
    return file >> pages ? pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

void limit(int resource, rlim_t most)
{
    const rlimit both{most, most};
    ::setrlimit(static_cast<__rlimit_resource>(resource), &both);
}

[[noreturn]] void run(const std::function<void()>& work, int report)
{
    for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU})
        std::signal(signal, SIG_DFL); // without the handlers of MPI, which print
    become_helper();
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, STDOUT_FILENO);
    ::dup2(nowhere, STDERR_FILENO);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_CPU, most_seconds);
    if (const rlim_t now = address_space(); now > 0)
        limit(RLIMIT_AS, now + most_memory);
    std::string text = "0"; // the exit status, then the message
    try {
        work();
    } catch (const Error& error) {
        text = str(error.exit_status(), error.what());
    } catch (const std::bad_alloc&) {
        ::_exit(1);
    }
    write_all(report, "a pipe", text);
    ::_exit(0);
}

} // namespace

void try_in_child(const std::string& path, const std::function<void()>& work)
{
#ifdef __SANITIZE_ADDRESS__ // its allocator may be locked in the child; it reports a crash itself
    return work();
#endif
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        throw_errno(path, "open");
    const pid_t child = [] {
        const h5::Lock lock; // no other thread is in the library
        return ::fork();
    }();
    if (child == 0) {
        h5::unlock_in_child();
        try {
            run(work, ends[1]);
        } catch (...) {
            ::_exit(1);
        }
    }
    ::close(ends[1]);
    std::string text;
    char part[4096];
    bool stuck = false;
    for (ssize_t got = 1; child > 0 && got != 0 && !stuck;) {
        pollfd waiting{ends[0], POLLIN, 0};
        const int ready = ::poll(&waiting, 1, static_cast<int>(1000 * most_waiting));
        stuck = ready == 0;
        if (ready <= 0)
            continue;
        if (got = ::read(ends[0], part, sizeof part); got > 0)
            text.append(part, static_cast<std::size_t>(got));
        else if (got < 0 && errno != EINTR)
            break;
    }
    ::close(ends[0]);
    if (child < 0)
        throw_errno(path, "start a process to open it");
    if (stuck)
        ::kill(child, SIGKILL);
    int status = 0;
    TEMP_FAILURE_RETRY(::waitpid(child, &status, 0));
    if (text == "0" || stuck)
        return;
    if (text.empty())
        throw UserError({path, "cannot be opened",
                         WIFSIGNALED(status) && WTERMSIG(status) != SIGXCPU && WTERMSIG(status) != SIGKILL
                             ? "the HDF5 library crashes on it: the file is damaged"
                             : "the HDF5 library takes too much time or memory: the file is damaged",
                         "check where it comes from; make the file again"});
    const Diagnostic same{"", text.substr(1), "", ""};
    if (text.front() == '2')
        throw UserError(same);
    throw IoError(same);
}

} // namespace trivium
