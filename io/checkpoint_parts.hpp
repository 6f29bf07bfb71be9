#pragma once
// What the sources of io/checkpoint.hpp share. Private to them.
#include "io/checkpoint.hpp"
#include "io/hdf5.hpp"

namespace trivium {

constexpr h5::Type type_of(StoredType type) { return type == StoredType::f32 ? h5::Type::f32 : h5::Type::f64; }

/// Removes a file or a folder with all in it; none is fine. IoError.
void remove_all(const std::string& path);

/// IoError.
void rename_path(const std::string& from, const std::string& to);

/// Removes what a save that was cut short has left in `dir`. IoError.
void remove_leftovers(const std::string& dir);

/// Removes all checkpoints but the newest `keep` (0: none). `newest` is the one just written: it stays whatever its
/// step. IoError.
void prune(const std::string& dir, const std::string& newest, i64 keep);

} // namespace trivium
