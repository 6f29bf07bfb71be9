#pragma once
// The one allocation that holds every tensor of a run.
#include "base/units.hpp"

#include <cstddef>
#include <vector>

namespace trivium {

/// Bytes that an arena may still take, of the machine and of its control group, or of the device; -1 where
/// nobody says.
Bytes available_memory();

/// Memory of a fixed size where this build computes, obtained in one piece and given back at the end: the
/// host's (page-aligned, untouched), or the device's (aligned to 256 bytes). Builds with contracts fill it
/// with a pattern, so that what was really touched can be measured.
class Arena {
public:
    /// Throws IoError where the system refuses, or has less memory free than that.
    explicit Arena(Bytes bytes);
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    ~Arena();

    Bytes size() const { return size_; }
    /// For kernels. What the host does with the content goes through a HostWindow.
    std::byte* at(Bytes offset) const { return data_ + offset; }

    /// Sets bytes to 0, after all work that the device was given before. Returns when it is done.
    void clear(Bytes offset, Bytes bytes) const;

    /// With contracts: the end of the highest byte that no longer holds the pattern. Else 0.
    Bytes high_water() const;

private:
    std::byte* data_ = nullptr;
    Bytes size_ = 0;
    Bytes mapped_ = 0;
};

/// A stretch of an arena for the host: the arena's own bytes where they are the host's, else a copy of them.
class HostWindow {
public:
    /// \pre it lies within the arena, which outlives it
    HostWindow(const Arena& arena, Bytes offset, Bytes bytes);

    /// Whether windows are the arena's own bytes, so that any thread may read them while nothing writes
    /// there.
    static bool in_place();

    Bytes bytes() const { return bytes_; }
    /// Valid until release(). A copy's content is garbage before pull().
    std::byte* data();
    /// Gets the content, after all work that the device was given before. Returns when it is there.
    void pull();
    /// Puts the content into the arena, after all work that the device was given before. Returns when it is
    /// there.
    void push();
    /// Gives a copy's memory back.
    void release();

private:
    std::byte* in_arena_;
    Bytes bytes_;
    std::vector<std::byte> copy_; ///< empty on the host
};

} // namespace trivium
