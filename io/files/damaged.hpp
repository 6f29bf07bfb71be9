#pragma once
// The error for checkpoints that differ from what was written.
#include "base/check.hpp"
#include "io/files/plain_file.hpp"

namespace trivium {

/// A checkpoint, or one of its files, differs from what was written. The caller may fall back to an older
/// checkpoint.
class DamagedCheckpoint : public UserError {
public:
    DamagedCheckpoint(const std::string& place, const std::string& problem)
        : UserError({place, problem, "this checkpoint is damaged or incomplete",
                     "use another one (checkpoint.resume), or restore it from a copy"})
    {
    }
};

/// Opens a file of a checkpoint for reading. DamagedCheckpoint if it is missing, may not be read, or is not a
/// regular file; IoError.
PlainFile open_stored(const std::string& path);
/// As above; DamagedCheckpoint also if the size of the file is not `bytes`.
PlainFile open_stored(const std::string& path, Bytes bytes);

} // namespace trivium
