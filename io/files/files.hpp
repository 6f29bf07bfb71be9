#pragma once
// Whole files: read them, or replace them atomically (a reader sees the old content or the new one).
// In the contracts of io/, the IoError of a file operation is the error of throw_errno: a UserError if the
// path or its permissions are wrong.
#include "base/units.hpp"

#include <cerrno>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

namespace trivium {

inline constexpr Bytes no_limit = std::numeric_limits<Bytes>::max();
/// Limits on files that are read as a whole: far above real files, but cheap in memory and time.
inline constexpr Bytes max_settings_bytes = Bytes{4} << 20; ///< TOML of a run or a machine, JSON of a model
inline constexpr Bytes max_tokenizer_bytes = Bytes{64}
                                             << 20;    ///< the largest tokenizer.json in use has about 35 MB
inline constexpr Bytes max_log_bytes = Bytes{2} << 30; ///< logs of a run: millions of steps

/// The whole content. UserError if `path` is missing, a folder, or larger than `max_bytes`. IoError if
/// reading fails. `what` names the file's role in messages ("config file").
std::string read_file(const std::string& path, std::string_view what = "file", Bytes max_bytes = no_limit);

/// UserError about `place` if the content is the pointer that Git LFS puts in place of a large file.
void require_no_pointer(std::string_view content, const std::string& place);

/// Size of the file; 0 for a pipe or a device. Errors as read_file.
Bytes file_size(const std::string& path, std::string_view what = "file");

/// Makes `folder` and its parents. IoError.
void make_folders(const std::string& folder);
/// The folder of `path`; "." if `path` names none.
std::string folder_of(const std::string& path);
/// UserError unless folder_of(path) exists.
void require_parent(const std::string& path);

/// The path that replace_file replaces: `path`, or the target of the symbolic links at `path`; it need not
/// exist. "" if `path` is a device, a pipe, or a deleted file. UserError if links form a cycle.
std::string file_to_replace(const std::string& path);

/// Replaces a file atomically: calls `write(temporary)`, which makes a file next to file_to_replace(path);
/// then fsync, rename, fsync of the folder. If anything throws before the rename, the temporary file is
/// removed and the old one stays. If file_to_replace(path) is "", only calls `write(path)`. Errors of
/// `write`; IoError.
void replace_file(const std::string& path, const std::function<void(const std::string& temporary)>& write);

/// replace_file with this content.
void write_file(const std::string& path, std::string_view content);

/// Throws UserError if the file at `path` does not begin like `content` (8 bytes are compared): writing
/// `content` would replace a file of another kind, such as a config by a picture. Accepts missing and empty
/// files.
void spare_other_kinds(const std::string& path, std::string_view content,
                       const std::string& remedy = "name another file, or remove this one");

/// Writes all of `text` to an open file; repeats short writes. IoError about `path`.
void write_all(int descriptor, const std::string& path, std::string_view text);

/// fsync of a file or a folder. IoError.
void sync_path(const std::string& path);

/// Throws an error about `path` from errno: "cannot write …: No space left on device". UserError if the path
/// or its permissions are wrong, otherwise IoError.
[[noreturn]] void throw_errno(const std::string& path, std::string_view action, int error = errno);

/// Writes a file front to back through a buffer. Each function may throw as throw_errno.
class FileWriter {
public:
    /// Creates or truncates `path`.
    explicit FileWriter(const std::string& path);
    FileWriter(const FileWriter&) = delete;
    FileWriter& operator=(const FileWriter&) = delete;
    ~FileWriter(); ///< closes without flushing: call close() first

    void write(const void* data, Bytes bytes);
    void write(std::string_view text) { write(text.data(), static_cast<Bytes>(text.size())); }
    /// Lets readers see what was written so far.
    void flush();
    /// Flushes and closes.
    void close();

private:
    std::string path_, buffer_;
    int descriptor_ = -1;
};

} // namespace trivium
