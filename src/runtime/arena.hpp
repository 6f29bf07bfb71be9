#pragma once
// The one allocation that holds every tensor of a run.
#include "base/units.hpp"

#include <cstddef>

namespace trivium {

/// Bytes that this process may still take: of the machine, and of its control group; -1 where nobody says.
Bytes available_memory();

/// Host memory of a fixed size, page-aligned, obtained from the system untouched and given back at the end.
/// Builds with contracts fill it with a pattern, so that what was really touched can be measured.
class Arena {
public:
    /// Throws IoError where the system refuses, or has less memory free than that.
    explicit Arena(Bytes bytes);
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    ~Arena();

    Bytes size() const { return size_; }
    std::byte* data() const { return data_; }
    std::byte* at(Bytes offset) const { return data_ + offset; }

    /// With contracts: the end of the highest byte that no longer holds the pattern. Else 0.
    Bytes high_water() const;

private:
    std::byte* data_ = nullptr;
    Bytes size_ = 0;
    Bytes mapped_ = 0;
};

} // namespace trivium
