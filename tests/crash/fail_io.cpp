// A library for LD_PRELOAD that makes one system call fail, among those that modify files below a folder.
//
//   TRIVIUM_FAIL_FOLDER  absolute path of the folder
//   TRIVIUM_FAIL_RANK    the affected rank (default 0; a process without a rank counts as 0)
//   TRIVIUM_FAIL_CALL    number of the call that fails, from 1; 0: none
//   TRIVIUM_FAIL_KIND    how it fails:
//                          kill-before, kill-after: SIGKILL
//                          EIO-once: this call only; EIO: this call and all later ones
//                          ENOSPC: this call and all later ones that need space
//                          torn: it writes half, then as ENOSPC
//                          short: it writes half and returns the number of written bytes
//   TRIVIUM_FAIL_LOG     log file, without its suffix ".RANK": "NUMBER CALL PATH" of each call, or if one
//                        is to fail, of that call only
//   TRIVIUM_FAIL_DELAY   microseconds that are added to each call
//   TRIVIUM_FAIL_GATE    a file: while it exists, calls that write data in subfolders wait
//   TRIVIUM_FAIL_FREE    free bytes that file systems report
//
// Writes through a memory mapping are not detected.
#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <mutex>
#include <string>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {

/// The real function that this library replaces.
template <class Function>
Function* next(const char* name, Function*)
{
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
#define NEXT(name) next(#name, static_cast<decltype(name)*>(nullptr))

std::string setting(const char* name)
{
    const char* text = std::getenv(name);
    return text ? text : "";
}

struct Settings {
    std::string folder = setting("TRIVIUM_FAIL_FOLDER"), kind = setting("TRIVIUM_FAIL_KIND"),
                log = setting("TRIVIUM_FAIL_LOG"), gate = setting("TRIVIUM_FAIL_GATE");
    long call = std::atol(setting("TRIVIUM_FAIL_CALL").c_str());
    unsigned delay = static_cast<unsigned>(std::atol(setting("TRIVIUM_FAIL_DELAY").c_str()));
    bool mine = false;
    Settings()
    {
        std::string rank;
        for (const char* variable : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"})
            if (const std::string text = setting(variable); !text.empty())
                rank = text;
        rank = rank.empty() ? "0" : rank;
        const std::string affected = setting("TRIVIUM_FAIL_RANK");
        mine = !folder.empty() && rank == (affected.empty() ? "0" : affected);
        log = log.empty() ? "" : log + "." + rank;
    }
};
const Settings& settings()
{
    static const Settings all;
    return all;
}

std::string real_path_of(int descriptor)
{
    char text[PATH_MAX];
    const ssize_t size =
        ::readlink(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), text, sizeof text);
    return size > 0 ? std::string(text, static_cast<std::size_t>(size)) : "";
}

std::string absolute(int folder, const char* path)
{
    if (path[0] == '/')
        return path;
    char here[PATH_MAX];
    const std::string base =
        folder == AT_FDCWD ? (::getcwd(here, sizeof here) ? here : "") : real_path_of(folder);
    return path[0] == '\0' ? base : base + "/" + path;
}

bool below(const std::string& path)
{
    const std::string& folder = settings().folder;
    return settings().mine && path.compare(0, folder.size(), folder) == 0 &&
           (path.size() == folder.size() || path[folder.size()] == '/');
}

enum class Verdict { pass, fail, half, kill_after };
enum Needs { nothing, space, bytes }; ///< the disk space that a call needs: none, some, or the written bytes

/// Counts a call and decides its outcome; sets errno if it fails.
Verdict judge(const char* name, const std::string& path, Needs needs)
{
    if (!below(path))
        return Verdict::pass;
    static std::mutex mutex;
    static long calls = 0;
    static bool full = false, broken = false;
    const Settings& s = settings();
    if (s.delay)
        ::usleep(s.delay);
    if (needs == bytes && !s.gate.empty() && path.find('/', s.folder.size() + 1) != std::string::npos)
        while (::access(s.gate.c_str(), F_OK) == 0)
            ::usleep(10'000);
    const std::lock_guard guard(mutex);
    const bool selected = ++calls == s.call;
    if (!s.log.empty() && (s.call == 0 || selected)) {
        static const int log = NEXT(open)(s.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        const std::string line = std::to_string(calls) + " " + name + " " + path + "\n";
        static_cast<void>(!NEXT(write)(log, line.data(), line.size()));
    }
    if (broken || (full && needs != nothing)) {
        errno = broken ? EIO : ENOSPC;
        return Verdict::fail;
    }
    if (!selected)
        return Verdict::pass;
    if (s.kind == "kill-before")
        ::kill(::getpid(), SIGKILL);
    if (s.kind == "kill-after")
        return Verdict::kill_after;
    broken = s.kind == "EIO";
    if (broken || s.kind == "EIO-once") {
        errno = EIO;
        return Verdict::fail;
    }
    full = s.kind == "ENOSPC" || s.kind == "torn";
    if (needs == bytes && s.kind != "ENOSPC")
        return Verdict::half;
    if (full && needs != nothing) {
        errno = ENOSPC;
        return Verdict::fail;
    }
    return Verdict::pass;
}

/// Makes the call, or returns `failed`, according to `verdict`.
template <class Call, class Result>
Result as_judged(Verdict verdict, Call&& call, Result failed)
{
    if (verdict == Verdict::fail)
        return failed;
    const Result result = call();
    if (verdict == Verdict::kill_after)
        ::kill(::getpid(), SIGKILL);
    return result;
}

template <class Call>
ssize_t written(const char* name, int descriptor, std::size_t count, Call&& call)
{
    const Verdict verdict = judge(name, real_path_of(descriptor), bytes);
    if (verdict == Verdict::half && count < 2)
        return call(count);
    return as_judged(
        verdict, [&] { return call(verdict == Verdict::half ? count / 2 : count); }, ssize_t{-1});
}

template <class Call>
int on_descriptor(const char* name, int descriptor, Needs needs, Call&& call)
{
    return as_judged(judge(name, real_path_of(descriptor), needs), call, -1);
}

template <class Call>
int on_path(const char* name, int folder, const char* path, Needs needs, Call&& call)
{
    return as_judged(judge(name, absolute(folder, path), needs), call, -1);
}

bool changes(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0; }

template <class Call>
int opened(const char* name, int folder, const char* path, int flags, Call&& call)
{
    return changes(flags) ? on_path(name, folder, path, flags & O_CREAT ? space : nothing, call) : call();
}

mode_t mode_of(int flags, va_list arguments)
{
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

/// Writes only the first vector: callers must handle short writes.
std::size_t first_of(const iovec* vectors, int count) { return count > 0 ? vectors[0].iov_len : 0; }

} // namespace

extern "C" {

#define OPEN(name)                                                                                           \
    int name(const char* path, int flags, ...)                                                               \
    {                                                                                                        \
        va_list arguments;                                                                                   \
        va_start(arguments, flags);                                                                          \
        const mode_t mode = mode_of(flags, arguments);                                                       \
        va_end(arguments);                                                                                   \
        return opened(#name, AT_FDCWD, path, flags, [&] { return NEXT(name)(path, flags, mode); });          \
    }
#define OPENAT(name)                                                                                         \
    int name(int folder, const char* path, int flags, ...)                                                   \
    {                                                                                                        \
        va_list arguments;                                                                                   \
        va_start(arguments, flags);                                                                          \
        const mode_t mode = mode_of(flags, arguments);                                                       \
        va_end(arguments);                                                                                   \
        return opened(#name, folder, path, flags, [&] { return NEXT(name)(folder, path, flags, mode); });    \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int creat(const char* path, mode_t mode)
{
    return on_path("creat", AT_FDCWD, path, space, [&] { return NEXT(creat)(path, mode); });
}
int creat64(const char* path, mode_t mode)
{
    return on_path("creat64", AT_FDCWD, path, space, [&] { return NEXT(creat64)(path, mode); });
}

#define MKOSTEMP(name)                                                                                       \
    int name(char* path, int flags)                                                                          \
    {                                                                                                        \
        return on_path(#name, AT_FDCWD, path, space, [&] { return NEXT(name)(path, flags); });               \
    }
MKOSTEMP(mkostemp)
MKOSTEMP(mkostemp64)

#define FOPEN(name)                                                                                          \
    FILE* name(const char* path, const char* mode)                                                           \
    {                                                                                                        \
        const auto call = [&] { return NEXT(name)(path, mode); };                                            \
        if (mode[0] == 'r' && std::strchr(mode, '+') == nullptr)                                             \
            return call();                                                                                   \
        return as_judged(judge(#name, absolute(AT_FDCWD, path), space), call, static_cast<FILE*>(nullptr));  \
    }
FOPEN(fopen)
FOPEN(fopen64)

ssize_t write(int file, const void* data, size_t count)
{
    return written("write", file, count, [&](size_t n) { return NEXT(write)(file, data, n); });
}
ssize_t pwrite(int file, const void* data, size_t count, off_t at)
{
    return written("pwrite", file, count, [&](size_t n) { return NEXT(pwrite)(file, data, n, at); });
}
ssize_t pwrite64(int file, const void* data, size_t count, off64_t at)
{
    return written("pwrite64", file, count, [&](size_t n) { return NEXT(pwrite64)(file, data, n, at); });
}
ssize_t writev(int file, const iovec* vectors, int count)
{
    const size_t first = first_of(vectors, count);
    return written("writev", file, first, [&](size_t n) {
        return n < first ? NEXT(write)(file, vectors[0].iov_base, n) : NEXT(writev)(file, vectors, count);
    });
}
ssize_t pwritev(int file, const iovec* vectors, int count, off_t at)
{
    const size_t first = first_of(vectors, count);
    return written("pwritev", file, first, [&](size_t n) {
        return n < first ? NEXT(pwrite)(file, vectors[0].iov_base, n, at)
                         : NEXT(pwritev)(file, vectors, count, at);
    });
}
ssize_t pwritev64(int file, const iovec* vectors, int count, off64_t at)
{
    const size_t first = first_of(vectors, count);
    return written("pwritev64", file, first, [&](size_t n) {
        return n < first ? NEXT(pwrite64)(file, vectors[0].iov_base, n, at)
                         : NEXT(pwritev64)(file, vectors, count, at);
    });
}

int fsync(int file)
{
    return on_descriptor("fsync", file, nothing, [&] { return NEXT(fsync)(file); });
}
int fdatasync(int file)
{
    return on_descriptor("fdatasync", file, nothing, [&] { return NEXT(fdatasync)(file); });
}
int syncfs(int file) noexcept
{
    return on_descriptor("syncfs", file, nothing, [&] { return NEXT(syncfs)(file); });
}
int sync_file_range(int file, off64_t at, off64_t count, unsigned flags)
{
    return on_descriptor("sync_file_range", file, nothing,
                         [&] { return NEXT(sync_file_range)(file, at, count, flags); });
}
int ftruncate(int file, off_t size) noexcept
{
    return on_descriptor("ftruncate", file, space, [&] { return NEXT(ftruncate)(file, size); });
}
int ftruncate64(int file, off64_t size) noexcept
{
    return on_descriptor("ftruncate64", file, space, [&] { return NEXT(ftruncate64)(file, size); });
}
int truncate(const char* path, off_t size) noexcept
{
    return on_path("truncate", AT_FDCWD, path, space, [&] { return NEXT(truncate)(path, size); });
}
int truncate64(const char* path, off64_t size) noexcept
{
    return on_path("truncate64", AT_FDCWD, path, space, [&] { return NEXT(truncate64)(path, size); });
}
int fallocate(int file, int mode, off_t at, off_t count)
{
    return on_descriptor("fallocate", file, space, [&] { return NEXT(fallocate)(file, mode, at, count); });
}
int fallocate64(int file, int mode, off64_t at, off64_t count)
{
    return on_descriptor("fallocate64", file, space,
                         [&] { return NEXT(fallocate64)(file, mode, at, count); });
}
int posix_fallocate(int file, off_t at, off_t count) // returns the error
{
    const Verdict verdict = judge("posix_fallocate", real_path_of(file), space);
    return as_judged(
        verdict, [&] { return NEXT(posix_fallocate)(file, at, count); }, errno);
}
int posix_fallocate64(int file, off64_t at, off64_t count)
{
    const Verdict verdict = judge("posix_fallocate64", real_path_of(file), space);
    return as_judged(
        verdict, [&] { return NEXT(posix_fallocate64)(file, at, count); }, errno);
}

/// Counts only files that are open for writing. Always closes the file, as Linux does.
int close(int file)
{
    const int flags = ::fcntl(file, F_GETFL);
    if (flags == -1 || !changes(flags))
        return NEXT(close)(file);
    const Verdict verdict = judge("close", real_path_of(file), nothing);
    const int reason = errno, result = as_judged(
                                  Verdict::pass, [&] { return NEXT(close)(file); }, -1);
    if (verdict == Verdict::kill_after)
        ::kill(::getpid(), SIGKILL);
    errno = verdict == Verdict::fail ? reason : errno;
    return verdict == Verdict::fail ? -1 : result;
}

int mkdir(const char* path, mode_t mode) noexcept
{
    return on_path("mkdir", AT_FDCWD, path, space, [&] { return NEXT(mkdir)(path, mode); });
}
int mkdirat(int folder, const char* path, mode_t mode) noexcept
{
    return on_path("mkdirat", folder, path, space, [&] { return NEXT(mkdirat)(folder, path, mode); });
}
int rename(const char* from, const char* to) noexcept
{
    return on_path("rename", AT_FDCWD, to, space, [&] { return NEXT(rename)(from, to); });
}
int renameat(int a, const char* from, int b, const char* to) noexcept
{
    return on_path("renameat", b, to, space, [&] { return NEXT(renameat)(a, from, b, to); });
}
int renameat2(int a, const char* from, int b, const char* to, unsigned flags) noexcept
{
    return on_path("renameat2", b, to, space, [&] { return NEXT(renameat2)(a, from, b, to, flags); });
}
int unlink(const char* path) noexcept
{
    return on_path("unlink", AT_FDCWD, path, nothing, [&] { return NEXT(unlink)(path); });
}
int unlinkat(int folder, const char* path, int flags) noexcept
{
    return on_path("unlinkat", folder, path, nothing, [&] { return NEXT(unlinkat)(folder, path, flags); });
}
int rmdir(const char* path) noexcept
{
    return on_path("rmdir", AT_FDCWD, path, nothing, [&] { return NEXT(rmdir)(path); });
}
int statvfs(const char* path, struct statvfs* system) noexcept
{
    const int result = NEXT(statvfs)(path, system);
    if (const std::string free = setting("TRIVIUM_FAIL_FREE"); result == 0 && !free.empty())
        system->f_bavail = static_cast<fsblkcnt_t>(std::atoll(free.c_str())) / system->f_frsize;
    return result;
}
int remove(const char* path) noexcept
{
    return on_path("remove", AT_FDCWD, path, nothing, [&] { return NEXT(remove)(path); });
}

} // extern "C"
