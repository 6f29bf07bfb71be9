#pragma once
// A regular file with reads and writes at offsets, for shards and indices.
#include "base/check.hpp"
#include "base/units.hpp"

#include <string>
#include <string_view>
#include <utility>

namespace trivium {

/// The stored bytes cannot be read. Unlike other IoErrors, trying again does not help.
class MediaError : public IoError {
public:
    using IoError::IoError;
};

/// Owns a file descriptor. Move-only. Several threads may read concurrently.
class PlainFile {
public:
    enum class Links { refuse, follow };
    /// Opens for reading. `what` names the file's role in messages. UserError if the file is missing, or is a
    /// link (unless links are followed), a folder, a pipe or a device. IoError.
    static PlainFile open(const std::string& path, std::string_view what, Links links = Links::refuse);
    /// Opens for reading and writing; keeps the content, or makes a new file. IoError.
    static PlainFile open_to_write(const std::string& path);
    /// Opens an unnamed file in `folder` for reading and writing; closing it removes it. IoError.
    static PlainFile temporary(const std::string& folder);
    PlainFile(PlainFile&& other) noexcept;
    PlainFile& operator=(PlainFile&& other) noexcept;
    ~PlainFile();

    const std::string& path() const { return path_; }
    Bytes size() const;
    /// Device and number of the file: those of another file at the same path differ. IoError.
    std::pair<u64, u64> identity() const;
    /// Reads all of [offset, offset + bytes). MediaError if the disk fails (EIO) or the file ends before;
    /// IoError otherwise.
    void read(Bytes offset, void* data, Bytes bytes) const;
    /// IoError.
    void write(Bytes offset, const void* data, Bytes bytes);
    /// Allocates disk space for `bytes` bytes, if the file system supports it, so that a full disk is
    /// detected before anything is written. IoError if there is not enough space.
    void reserve(Bytes bytes);
    /// Starts writing [offset, offset + bytes) back to the disk; does not wait.
    void begin_writeback(Bytes offset, Bytes bytes);
    /// Asks the system to read [offset, offset + bytes) ahead; does not wait.
    void will_read(Bytes offset, Bytes bytes) const;
    /// fsync. IoError.
    void sync();
    /// IoError; the destructor ignores errors.
    void close();

private:
    PlainFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
    std::string path_;
    int descriptor_ = -1;
};

} // namespace trivium
