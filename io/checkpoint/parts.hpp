#pragma once
// Operations on the folders of a run's checkpoints. Private to the sources of io/checkpoint/checkpoint.hpp.
#include "io/checkpoint/checkpoint.hpp"

namespace trivium {

/// Removes a file, or a folder with its content; nothing if `path` does not exist. IoError.
void remove_all(const std::string& path);

/// As remove_all, with a warning instead of an error.
void remove_if_possible(const std::string& path);

/// Renames a file or a folder. IoError.
void rename_path(const std::string& from, const std::string& to);

/// Removes the temporary files of an interrupted save from `dir`. If that save was about to replace a
/// checkpoint, restores the old one. IoError.
void remove_leftovers(const std::string& dir);

/// Renames the complete folder `temporary` to dir/`name`, and replaces a folder of that name (the same step
/// before a restart). The new name is durable on return. IoError; the old folder is then unchanged, unless
/// the error is that it cannot be removed.
void put_in_place(const std::string& dir, const std::string& temporary, const std::string& name);

/// Writes `name` to dir/latest. IoError.
void mark_latest(const std::string& dir, const std::string& name);

/// Removes all checkpoints but the newest `keep` (0: removes none). `newest` was written last; it stays
/// whatever its step. IoError.
void prune(const std::string& dir, const std::string& newest, i64 keep);

} // namespace trivium
