#pragma once
// Checkpoints that are not as they were written.
#include "base/check.hpp"
#include "io/files/plain_file.hpp"

namespace trivium {

/// A checkpoint, or a file of one, is not as it was written: where there is another one, that can be used
/// instead.
class DamagedCheckpoint : public UserError {
public:
    DamagedCheckpoint(const std::string& place, const std::string& problem)
        : UserError({place, problem, "this checkpoint is damaged or incomplete",
                     "use another one (checkpoint.resume), or restore it from a copy"})
    {
    }
};

/// A file of a checkpoint, to read. \throws DamagedCheckpoint where there is none or something else stands
/// there, IoError
PlainFile open_stored(const std::string& path);
/// One that must have so many bytes.
PlainFile open_stored(const std::string& path, Bytes bytes);

} // namespace trivium
