#pragma once
// A sealed HDF5 file: its first 512 bytes (HDF5's "user block", which the library skips) are text with the
// file's kind, version and size, and a hash of all bytes except one large range that is verified elsewhere.
// HDF5 1.10 can crash on damaged metadata, so check_seal comes before the library opens the file.
#include "base/units.hpp"

#include <string>
#include <string_view>

namespace trivium {

inline constexpr Bytes seal_bytes = 512;

/// Seals `path`; does not sync. The hash excludes bytes [skip_begin, skip_begin + skip_bytes). IoError. \pre
/// the first seal_bytes bytes of the file are reserved
void seal_file(const std::string& path, std::string_view kind, i64 version, Bytes skip_begin,
               Bytes skip_bytes);

/// The expected properties of a sealed file.
struct Sealed {
    std::string_view kind;
    i64 version = 0;
    std::string remedy;   ///< how to get a good file
    std::string update;   ///< how to get a file of this version from an older one
    i64 oldest = version; ///< versions from here on are read, too
};
/// Returns the file's version. UserError if `path` is missing, of another kind or version, truncated, or
/// differs from what was sealed; IoError.
i64 check_seal(const std::string& path, const Sealed& expected);
/// The version that the seal of a file states; reads nothing else of it. 0: no file with a seal of this kind.
i64 version_in_seal(const std::string& path, std::string_view kind);

} // namespace trivium
