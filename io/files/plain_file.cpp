#include "io/files/plain_file.hpp"

#include "base/check.hpp"
#include "io/files/files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace trivium {

PlainFile PlainFile::open(const std::string& path, std::string_view what, Links links)
{
    // O_NONBLOCK: opening a pipe must not block. O_NOFOLLOW: a checkpoint never contains links.
    const int number =
        ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | (links == Links::refuse ? O_NOFOLLOW : 0));
    const auto refuse = [&](std::string_view is) {
        throw UserError({path, str("is ", is, ", not a ", what), "", "put the file itself there"});
    };
    if (number < 0) {
        if (errno == ELOOP)
            refuse(links == Links::refuse ? "a link" : "a circular link");
        if (errno == ENXIO)
            refuse("a socket");
        if (errno == ENOENT || errno == ENOTDIR)
            throw UserError({path, str("there is no such ", what), "",
                             "check the path; it is relative to the working folder"});
        throw_errno(path, "open");
    }
    PlainFile file(path, number);
    struct stat info {};
    if (::fstat(number, &info) != 0)
        throw_errno(path, "open");
    if (!S_ISREG(info.st_mode))
        refuse(S_ISDIR(info.st_mode) ? "a folder" : S_ISFIFO(info.st_mode) ? "a pipe" : "a device");
    return file;
}

PlainFile PlainFile::open_to_write(const std::string& path)
{
    const int number = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (number < 0)
        throw_errno(path, "write");
    return {path, number};
}

PlainFile PlainFile::temporary(const std::string& folder)
{
    std::string path = folder + "/.scratch-XXXXXX";
    const int number = ::mkostemp(path.data(), O_CLOEXEC);
    if (number < 0)
        throw_errno(path, "write");
    ::unlink(path.c_str());
    return {path, number};
}

PlainFile::PlainFile(PlainFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1))
{
}

PlainFile& PlainFile::operator=(PlainFile&& other) noexcept
{
    std::swap(path_, other.path_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
}

PlainFile::~PlainFile()
{
    if (descriptor_ >= 0)
        ::close(descriptor_);
}

Bytes PlainFile::size() const
{
    struct stat info {};
    if (::fstat(descriptor_, &info) != 0)
        throw_errno(path_, "read");
    return info.st_size;
}

std::pair<u64, u64> PlainFile::identity() const
{
    struct stat info {};
    if (::fstat(descriptor_, &info) != 0)
        throw_errno(path_, "read");
    return {info.st_dev, info.st_ino};
}

void PlainFile::read(Bytes offset, void* data, Bytes bytes) const
{
    for (auto* to = static_cast<char*>(data); bytes > 0;) {
        const ssize_t got =
            TEMP_FAILURE_RETRY(::pread(descriptor_, to, static_cast<std::size_t>(bytes), offset));
        if (got < 0 && errno == EIO)
            throw MediaError({path_, "cannot read", std::strerror(errno),
                              "the disk or the network file system failed; see the system's log"});
        if (got < 0)
            throw_errno(path_, "read");
        if (got == 0)
            throw MediaError({path_, "ends too early", str(bytes, " more bytes were expected"),
                              "another program has truncated it; restore it from a copy"});
        to += got;
        offset += got;
        bytes -= got;
    }
}

void PlainFile::write(Bytes offset, const void* data, Bytes bytes)
{
    for (const auto* from = static_cast<const char*>(data); bytes > 0;) {
        const ssize_t put =
            TEMP_FAILURE_RETRY(::pwrite(descriptor_, from, static_cast<std::size_t>(bytes), offset));
        if (put < 0)
            throw_errno(path_, "write");
        from += put;
        offset += put;
        bytes -= put;
    }
}

void PlainFile::reserve(Bytes bytes)
{
    if (TEMP_FAILURE_RETRY(::fallocate(descriptor_, 0, 0, bytes)) != 0 &&
        (errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO))
        throw_errno(path_, str("write ", format_bytes(bytes)));
}

void PlainFile::begin_writeback(Bytes offset, Bytes bytes)
{
    ::sync_file_range(descriptor_, offset, bytes,
                      SYNC_FILE_RANGE_WRITE); // only a hint: sync() reports errors
}

void PlainFile::will_read(Bytes offset, Bytes bytes) const
{
    ::posix_fadvise(descriptor_, offset, bytes, POSIX_FADV_WILLNEED);
}

void PlainFile::sync()
{
    if (TEMP_FAILURE_RETRY(::fsync(descriptor_)) != 0)
        throw_errno(path_, "write");
}

void PlainFile::close()
{
    const int number = std::exchange(descriptor_, -1);
    if (number >= 0 && ::close(number) != 0 && errno != EINTR)
        throw_errno(path_, "write");
}

} // namespace trivium
