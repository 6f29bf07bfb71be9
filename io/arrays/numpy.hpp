#pragma once
// The header of a NumPy file (.npy, versions 1 to 3).
#include "base/dtype.hpp"
#include "io/files/byte_source.hpp"
#include "ir/mesh.hpp"

#include <optional>
#include <string>

namespace trivium {

struct NumpyHeader {
    std::string type;           ///< "<f4"; empty: structures, or another description of more than a number
    std::string extents;        ///< "(12, 3)", as the file has it
    std::optional<Shape> shape; ///< of these extents; nullopt if they are none
    bool fortran = false;       ///< the first index runs fastest
    Bytes begin = 0;            ///< of the first element in the file
};

/// Reads the header alone. UserError about `source.path` if the file is none of NumPy, of another version, or
/// ends within its header.
NumpyHeader parse_numpy_header(const ByteSource& source);

struct NumpyType {
    DType type;
    bool big_endian;
};
/// What a simple type such as "<f4" or "|u1" says; truth values ("|b1") are u8; nullopt for others.
std::optional<NumpyType> numpy_type(const std::string& type);

} // namespace trivium
