#pragma once
// Operations on the folders of a run's checkpoints. Private to the sources of io/checkpoint/checkpoint.hpp.
#include "io/checkpoint/checkpoint.hpp"

namespace trivium {

/// Removes the temporary files of an interrupted save from `dir`. If that save was about to replace a
/// checkpoint, restores the old one. IoError.
void remove_leftovers(const std::string& dir);

/// Renames the complete folder `temporary` to dir/`name`, and replaces a folder of that name (the same step
/// before a restart). The new name is durable on return. IoError; the old folder is then unchanged, unless
/// the error is that it cannot be removed.
void put_in_place(const std::string& dir, const std::string& temporary, const std::string& name);

/// Writes `name` to dir/latest. IoError.
void mark_latest(const std::string& dir, const std::string& name);

/// Writes `name` to dir/best. IoError.
void write_best(const std::string& dir, const std::string& name);

} // namespace trivium
