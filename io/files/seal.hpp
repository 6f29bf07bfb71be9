#pragma once
// A sealed HDF5 file: its first 512 bytes (HDF5's "user block", which the library skips) are text that states
// the file's kind, version and size, and the hash of every byte but a large part that is checked elsewhere.
// HDF5 1.10 can crash on damaged metadata; what passes the seal is as it was written.
#include "base/units.hpp"

#include <string>
#include <string_view>

namespace trivium {

inline constexpr Bytes seal_bytes = 512;

/// Seals `path`, whose first seal_bytes are reserved. Bytes [skip_begin, skip_begin + skip_bytes) are left
/// out. IoError.
void seal_file(const std::string& path, std::string_view kind, i64 version, Bytes skip_begin,
               Bytes skip_bytes);

/// What a sealed file should be.
struct Sealed {
    std::string_view kind;
    i64 version = 0;
    std::string remedy; ///< how to get a good file
    std::string update; ///< how to get one of this version
};
/// UserError where `path` is missing, of another kind or version, truncated, or not the bytes that were
/// sealed.
void check_seal(const std::string& path, const Sealed& expected);

} // namespace trivium
