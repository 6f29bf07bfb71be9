#pragma once
// Files of which only some are open at a time, because a process may open few (usually 1024).
#include "io/files/plain_file.hpp"

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace trivium {

/// The open files of a group.
struct OpenFiles {
    static constexpr std::size_t most = 128;

    std::mutex mutex{};
    std::deque<std::shared_ptr<const PlainFile>> files{}; ///< the one that was opened last is the last
};

/// A file that is read. It is open until `most` others of its group have been opened; then the next read
/// opens it again. Several threads may read concurrently.
class OccasionalFile {
public:
    /// Opens the file, and follows links. Errors as PlainFile::open(), which has `what`.
    OccasionalFile(std::shared_ptr<OpenFiles> group, std::string path, std::string what);

    /// The file, opened if it is closed; for one read, since it stays open as long as the pointer exists.
    /// UserError if another file is now at its path; errors as PlainFile::open().
    std::shared_ptr<const PlainFile> open() const;

private:
    std::shared_ptr<OpenFiles> group_; ///< its mutex guards open_
    std::string path_, what_;
    std::optional<std::pair<u64, u64>> identity_; ///< PlainFile::identity() at first
    mutable std::weak_ptr<const PlainFile> open_;
};

} // namespace trivium
