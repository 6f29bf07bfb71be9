#pragma once
// Operations on the folders of a run's checkpoints. Private to the sources of io/checkpoint/checkpoint.hpp.
#include "io/checkpoint/checkpoint.hpp"

namespace trivium {

/// Removes a file or a folder with its content, if it exists. IoError.
void remove_all(const std::string& path);

/// The same, with a warning instead of an error.
void remove_if_possible(const std::string& path);

/// IoError.
void rename_path(const std::string& from, const std::string& to);

/// Removes the temporary files of an interrupted save from `dir`, and restores a checkpoint that it was about
/// to replace. IoError.
void remove_leftovers(const std::string& dir);

/// Renames the complete folder `temporary` in `dir` to `name`, and replaces a folder of that name (the same
/// step before a restart). The new name is durable on return. IoError; then an old folder is unchanged.
void put_in_place(const std::string& dir, const std::string& temporary, const std::string& name);

/// Writes dir/latest. IoError.
void mark_latest(const std::string& dir, const std::string& name);

/// Removes all checkpoints but the newest `keep` (0: removes none). `newest` was written last; it stays
/// whatever its step. IoError.
void prune(const std::string& dir, const std::string& newest, i64 keep);

} // namespace trivium
