#pragma once
// Checks before the first step that the checkpoints of a run fit on the disk.
#include "base/units.hpp"

#include <string>

namespace trivium {

struct SavesToCome {
    Bytes bytes = 0;     ///< of one save, over all ranks
    i64 count = 1;       ///< saves to come
    i64 keep = 0;        ///< checkpoint.keep; 0: all
    i64 kept_before = 0; ///< existing checkpoints
};

/// Free bytes of the file system of `dir`, ignoring quotas; -1: unknown.
Bytes free_space(const std::string& dir);

/// Throws IoError if `free` bytes (-1: unknown) are too few for one save, which is written before an older
/// one is removed. Returns a warning if they are too few for the saves to come that exist at the same
/// time, otherwise "".
std::string judge_space(const std::string& dir, Bytes free, const SavesToCome& saves);

} // namespace trivium
