#pragma once
// What happens to the folders of a run's checkpoints. Private to the sources of io/checkpoint/checkpoint.hpp.
#include "io/checkpoint/checkpoint.hpp"

namespace trivium {

/// Removes a file or a folder with all in it; none is fine. IoError.
void remove_all(const std::string& path);

/// The same, with a warning where it cannot be.
void remove_if_possible(const std::string& path);

/// IoError.
void rename_path(const std::string& from, const std::string& to);

/// Removes what a save that was cut short has left in `dir`; puts back what it had taken away. IoError.
void remove_leftovers(const std::string& dir);

/// Gives the finished folder `temporary` of `dir` its name. One of that name, of the same step before a
/// restart, goes. Returns when the name is on the disk. IoError, and then an old one is as it was.
void put_in_place(const std::string& dir, const std::string& temporary, const std::string& name);

/// Writes dir/latest. IoError.
void mark_latest(const std::string& dir, const std::string& name);

/// Removes all checkpoints but the newest `keep` (0: none). `newest` is the one just written: it stays
/// whatever its step. IoError.
void prune(const std::string& dir, const std::string& newest, i64 keep);

} // namespace trivium
