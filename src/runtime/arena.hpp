#pragma once
// The one allocation that holds every tensor of a run.
#include "base/units.hpp"

#include <cstddef>
#include <vector>

namespace trivium {

/// Bytes that an arena may still take, of the machine and of its control group, or of the device; -1 where
/// this is not known.
Bytes available_memory();

/// Memory of a fixed size where this build computes, obtained in one piece and freed at the end: the
/// host's (page-aligned, untouched), or the device's (aligned to 256 bytes). Builds with contracts fill it
/// with a pattern, so that the touched part can be measured.
class Arena {
public:
    /// Throws IoError where the system refuses, or has less memory free than that.
    explicit Arena(Bytes bytes);
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    ~Arena();

    Bytes size() const { return size_; }
    /// For kernels. The host reads and writes the content through a HostWindow.
    std::byte* at(Bytes offset) const { return data_ + offset; }

    /// Sets bytes to 0, after all work that the device was given before. Returns when it is done.
    void clear(Bytes offset, Bytes bytes) const;

    /// With contracts: the end of the highest byte that no longer has the pattern. Otherwise 0.
    Bytes high_water() const;

private:
    std::byte* data_ = nullptr;
    Bytes size_ = 0;
    Bytes mapped_ = 0;
};

/// A range of an arena for the host: the arena's own bytes where they are the host's, otherwise a copy.
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
    /// Copies the content from the arena, after all work that the device was given before. Returns when done.
    void pull();
    /// Copies the content to the arena, after all work that the device was given before. Returns when done.
    void push();
    /// Frees a copy's memory.
    void release();

private:
    std::byte* in_arena_;
    Bytes bytes_;
    std::vector<std::byte> copy_; ///< empty on the host
};

} // namespace trivium
