#pragma once
// Bytes of a file, or in tests of a text.
#include "io/files/plain_file.hpp"

#include <functional>
#include <string>

namespace trivium {

struct ByteSource {
    std::string path;
    Bytes size = 0;
    std::function<void(Bytes at, void* to, Bytes count)> read; ///< \pre at + count <= size
};

/// `file` must outlive the source.
inline ByteSource source_of(const PlainFile& file)
{
    return {file.path(), file.size(), [&file](Bytes at, void* to, Bytes count) { file.read(at, to, count); }};
}

} // namespace trivium
