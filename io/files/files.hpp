#pragma once
// Files as a whole: read, and written so that a reader sees the old content or the new, never half of it.
#include "base/units.hpp"

#include <functional>
#include <limits>
#include <string>
#include <string_view>

namespace trivium {

inline constexpr Bytes no_limit = std::numeric_limits<Bytes>::max();
/// Limits on files that are read as a whole: far above what is in use, and little memory and time.
inline constexpr Bytes most_settings_bytes = Bytes{4} << 20; ///< TOML of a run or a machine, JSON of a model
inline constexpr Bytes most_tokenizer_bytes = Bytes{64}
                                              << 20;    ///< the largest tokenizer.json in use has some 35 MB
inline constexpr Bytes most_log_bytes = Bytes{2} << 30; ///< lines that runs write: some million steps

/// The whole content. UserError where `path` is missing or a folder, or has more than `most` bytes: then
/// nothing is read. IoError where reading fails. `what` names the file's role in messages ("config file").
std::string read_file(const std::string& path, std::string_view what = "file", Bytes most = no_limit);

/// Bytes of the file; 0 for a pipe or a device. Errors as read_file.
Bytes file_size(const std::string& path, std::string_view what = "file");

/// Makes `folder` and its parents. IoError where the machine refuses.
void make_folders(const std::string& folder);

/// What replace_file replaces: `path`, or what links at it lead to, be it there yet or not. "" where there is
/// no plain file to replace, but a device, a pipe, or a file that has lost its name. IoError: links that lead
/// round.
std::string file_to_replace(const std::string& path);

/// Writes through a temporary name beside file_to_replace(path): calls `write(temporary)`, which makes the
/// file; then fsync, rename, fsync of the folder. When anything throws, the temporary file goes and the old
/// one stays. Where there is not a regular file to replace, only calls `write(path)`.
void replace_file(const std::string& path, const std::function<void(const std::string& temporary)>& write);

/// replace_file with this content.
void write_file(const std::string& path, std::string_view content);

/// Writes all of it to an open file, also where the disk takes less at a time. IoError about `path`.
void write_all(int descriptor, const std::string& path, std::string_view text);

/// Waits until a file's or a folder's content is on the disk. IoError.
void sync_path(const std::string& path);

/// Throws IoError about `path` from errno: "cannot write …: No space left on device".
[[noreturn]] void throw_errno(const std::string& path, std::string_view action);

/// A file being written front to back through a buffer; every failure is an IoError.
class FileWriter {
public:
    /// Creates or truncates `path`.
    explicit FileWriter(const std::string& path);
    FileWriter(const FileWriter&) = delete;
    FileWriter& operator=(const FileWriter&) = delete;
    ~FileWriter(); ///< closes; what was not flushed is lost

    void write(const void* data, Bytes bytes);
    /// Flushes and closes.
    void close();
    Bytes bytes() const { return bytes_; }

private:
    void flush();
    std::string path_, buffer_;
    Bytes bytes_ = 0;
    int descriptor_ = -1;
};

} // namespace trivium
