#pragma once
// A plain file by offsets: what shards and indices are written and read with.
#include "base/check.hpp"
#include "base/units.hpp"

#include <string>
#include <string_view>

namespace trivium {

/// A disk does not give back what was written there; other IoErrors may pass.
class MediaError : public IoError {
public:
    using IoError::IoError;
};

/// Owns a descriptor. Move-only; several threads may read at once.
class PlainFile {
public:
    enum class Links { refuse, follow };
    /// To read. `what` names the file's role in messages. UserError where there is none, or something else
    /// than a file stands there: a link (unless it is followed), a folder, a pipe, a device. IoError where
    /// the machine refuses.
    static PlainFile open(const std::string& path, std::string_view what, Links links = Links::refuse);
    /// To read and write what is there, or a new file. IoError.
    static PlainFile open_to_write(const std::string& path);
    /// To read and write a file in `folder` that has no name, and is gone when it is closed. IoError.
    static PlainFile temporary(const std::string& folder);
    PlainFile(PlainFile&& other) noexcept;
    PlainFile& operator=(PlainFile&& other) noexcept;
    ~PlainFile();

    const std::string& path() const { return path_; }
    Bytes size() const;
    /// All of [offset, offset + bytes). IoError where reading fails: a MediaError for the disk's fault, or
    /// where the file ends before.
    void read(Bytes offset, void* data, Bytes bytes) const;
    /// IoError.
    void write(Bytes offset, const void* data, Bytes bytes);
    /// Takes space on the disk for a file of so many bytes, where the file system can: a disk that is too
    /// full shows before anything is written. IoError where there is none.
    void reserve(Bytes bytes);
    /// The system will want [offset, offset + bytes) on the disk soon: begins, and does not wait.
    void begin_writeback(Bytes offset, Bytes bytes);
    /// [offset, offset + bytes) will be read soon.
    void will_read(Bytes offset, Bytes bytes) const;
    /// Waits until the content is on the disk. IoError.
    void sync();
    /// IoError. The destructor closes without.
    void close();

private:
    PlainFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
    std::string path_;
    int descriptor_ = -1;
};

} // namespace trivium
