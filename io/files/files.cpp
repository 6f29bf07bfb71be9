#include "io/files/files.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace trivium {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t buffer_size = std::size_t{1} << 20;

struct Descriptor {
    int number;
    ~Descriptor() { ::close(number); }
};

/// Opens a file that the user named, for reading. UserError if it is missing or a folder.
int open_to_read(const std::string& path, std::string_view what)
{
    const int number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (number < 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            throw UserError({path, str("there is no such ", what), "",
                             "check the path; it is relative to the working folder"});
        if (errno == ELOOP)
            throw UserError({path, str("is a circular link, not a ", what), "", "put the file itself there"});
        if (errno == EACCES)
            throw UserError({path, str("this ", what, " may not be read"), std::strerror(errno),
                             "check its permissions"});
        throw_errno(path, "open");
    }
    struct stat info {};
    if (::fstat(number, &info) == 0 && S_ISDIR(info.st_mode)) {
        ::close(number);
        throw UserError({path, str("is a folder, not a ", what), "", "name a file in it"});
    }
    return number;
}

} // namespace

std::string folder_of(const std::string& path)
{
    const std::string folder = fs::path(path).parent_path().string();
    return folder.empty() ? "." : folder;
}

void throw_errno(const std::string& path, std::string_view action, int error)
{
    // Another path, or other permissions, are the user's to choose.
    for (const int wrong_path : {EACCES, EPERM, EROFS, ENOTDIR, EISDIR, ENAMETOOLONG, ELOOP})
        if (error == wrong_path)
            throw UserError(
                {path, str("cannot ", action), std::strerror(error), "check the path and its permissions"});
    std::string remedy = "check the path and its permissions";
    if (error == ENOSPC || error == EDQUOT)
        remedy = "free space on that disk, or choose another folder";
    else if (error == EFBIG)
        remedy = "raise the limit on the size of a file (ulimit -f unlimited), or ask the administrators to";
    else if (error == EIO)
        remedy = "the disk or the network file system failed; see the system's log";
    else if (error == EPIPE)
        remedy = "the program that reads it has ended; let it read to the end";
    throw IoError({path, str("cannot ", action), std::strerror(error), remedy});
}

std::string read_file(const std::string& path, std::string_view what, Bytes max_bytes)
{
    const Descriptor file{open_to_read(path, what)};
    struct stat info {};
    if (::fstat(file.number, &info) != 0)
        throw_errno(path, "read");
    const auto require = [&](Bytes bytes) {
        if (bytes > max_bytes)
            throw UserError({path, str("is too large for a ", what),
                             str("at most ", format_bytes(max_bytes), " are read, it has ",
                                 format_bytes(bytes), S_ISREG(info.st_mode) ? "" : " or more"),
                             "check that it is the right file"});
    };
    require(info.st_size);
    std::string content(static_cast<std::size_t>(std::max<off_t>(info.st_size, 0)), '\0');
    std::size_t size = 0;
    while (true) {
        if (size == content.size())
            content.resize(size + 4096); // the file grew, or has no size (a pipe)
        const ssize_t got =
            TEMP_FAILURE_RETRY(::read(file.number, content.data() + size, content.size() - size));
        if (got < 0)
            throw_errno(path, "read");
        if (got == 0)
            break;
        size += static_cast<std::size_t>(got);
        require(static_cast<Bytes>(size)); // for pipes, whose size is not known before
    }
    content.resize(size);
    return content;
}

void require_no_pointer(std::string_view content, const std::string& place)
{
    if (content.starts_with("version https://git-lfs.github.com/"))
        throw UserError({place, "is a pointer of Git LFS, not the file itself",
                         "the repository was cloned without its large files",
                         "run `git lfs pull` in that repository, or download the file"});
}

Bytes file_size(const std::string& path, std::string_view what)
{
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
        return 0; // opening a pipe would block until it has a writer
    const Descriptor file{open_to_read(path, what)};
    if (::fstat(file.number, &info) != 0)
        throw_errno(path, "read");
    return info.st_size;
}

void make_folders(const std::string& folder)
{
    std::error_code error;
    fs::create_directories(folder, error);
    if (error == std::errc::no_such_file_or_directory || error == std::errc::file_exists)
        throw UserError({folder, "cannot make this folder", error.message(), "check the path"});
    if (error)
        throw_errno(folder, "make this folder", error.value());
}

void require_parent(const std::string& path)
{
    const std::string folder = folder_of(path);
    if (std::error_code error; !fs::is_directory(folder, error))
        throw UserError(
            {path, "cannot be written",
             fs::exists(folder, error) ? str(folder, " is not a folder") : str("there is no folder ", folder),
             "check the path, or make that folder"});
}

void sync_path(const std::string& path)
{
    const int number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (number < 0)
        throw_errno(path, "open");
    const Descriptor file{number};
    // Some file systems do not support fsync of a folder.
    if (::fsync(number) != 0 && errno != EINVAL)
        throw_errno(path, "write");
}

std::string file_to_replace(const std::string& path)
{
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status))
        return "";
    fs::path file = path;
    for (int links = 0; fs::is_symlink(fs::symlink_status(file, error)); ++links) {
        const fs::path target = fs::read_symlink(file, error);
        if (error || links == 40)
            throw_errno(path, "write", error ? error.value() : ELOOP);
        file = file.parent_path() / target;
    }
    return fs::exists(status) && !fs::exists(file, error) ? "" : file.string();
}

void replace_file(const std::string& path, const std::function<void(const std::string&)>& write)
{
    const std::string file = file_to_replace(path);
    if (file.empty())
        return write(path);
    const std::string temporary = str(file, ".tmp-", ::getpid());
    make_folders(folder_of(file));
    try {
        write(temporary);
        sync_path(temporary);
        if (std::rename(temporary.c_str(), file.c_str()) != 0)
            throw_errno(path, "write");
    } catch (...) {
        ::unlink(temporary.c_str());
        throw;
    }
    sync_path(folder_of(file));
}

void write_file(const std::string& path, std::string_view content)
{
    replace_file(path, [&](const std::string& temporary) {
        FileWriter file(temporary);
        file.write(content);
        file.close();
    });
}

void spare_other_kinds(const std::string& path, std::string_view content, const std::string& remedy)
{
    if (std::error_code error; !fs::is_regular_file(path, error))
        return;
    constexpr std::size_t enough = 8;
    const std::string own(content.substr(0, enough));
    std::string begin(own.size(), '\0');
    const Descriptor file{open_to_read(path, "file")};
    const ssize_t got = ::read(file.number, begin.data(), begin.size());
    begin.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (!begin.empty() && begin != own)
        throw UserError(
            {path, "exists and is a file of another kind", "the output would replace it", remedy});
}

void write_all(int descriptor, const std::string& path, std::string_view text)
{
    while (!text.empty()) {
        const ssize_t put = TEMP_FAILURE_RETRY(::write(descriptor, text.data(), text.size()));
        if (put < 0)
            throw_errno(path, "write");
        text.remove_prefix(static_cast<std::size_t>(put));
    }
}

FileWriter::FileWriter(const std::string& path) : path_(path)
{
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor_ < 0)
        throw_errno(path, "write");
    buffer_.reserve(buffer_size);
}

FileWriter::~FileWriter()
{
    if (descriptor_ >= 0)
        ::close(descriptor_);
}

void FileWriter::write(const void* data, Bytes bytes)
{
    buffer_.append(static_cast<const char*>(data), static_cast<std::size_t>(bytes));
    if (buffer_.size() >= buffer_size)
        flush();
}

void FileWriter::flush()
{
    write_all(descriptor_, path_, buffer_);
    buffer_.clear();
}

void FileWriter::close()
{
    flush();
    const int number = std::exchange(descriptor_, -1);
    if (::close(number) != 0)
        throw_errno(path_, "write");
}

} // namespace trivium
