#pragma once
// Parts of texts.
#include <cstddef>

namespace trivium {

/// Bytes [begin, end) of a text.
struct TextSpan {
    std::size_t begin = 0, end = 0;
    bool operator==(const TextSpan&) const = default;
};

} // namespace trivium
