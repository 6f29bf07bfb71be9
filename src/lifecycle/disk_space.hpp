#pragma once
// Whether the checkpoints of a run find room, known before its first step.
#include "base/units.hpp"

#include <string>

namespace trivium {

struct SavesToCome {
    Bytes bytes = 0;     ///< of one save, of all ranks
    i64 count = 1;       ///< saves to come
    i64 keep = 0;        ///< how many stay; 0: all
    i64 kept_before = 0; ///< how many are there, and have their room
};

/// Bytes that this user may still write to the file system of `dir`, quotas aside; -1 where that is not
/// known.
Bytes free_space(const std::string& dir);

/// IoError where `free` bytes (-1: not known) of the file system of `dir` are too few for one save; it is
/// written before an older one is removed. Returns a warning where they are too few for those to come, else
/// "".
std::string judge_space(const std::string& dir, Bytes free, const SavesToCome& saves);

} // namespace trivium
