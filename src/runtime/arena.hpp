#pragma once
// The arenas: a single allocation per space for all tensors of a run.
#include "base/check.hpp"
#include "ir/type.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace trivium {

/// Bytes available for an arena, on the host (within its control groups) or on the device; -1 if unknown.
Bytes available_memory();

/// One allocation of fixed size where this build computes: on the host (page-aligned, not yet written) or on
/// the device (aligned to 256 bytes). Builds with contracts fill it with a pattern, so that the used part can
/// be measured.
class Arena {
public:
    /// Throws IoError if less memory is available or the system refuses the allocation.
    explicit Arena(Bytes bytes);
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    ~Arena();

    Bytes size() const { return size_; }
    /// Address for kernels. The host accesses the content through a HostWindow.
    std::byte* at(Bytes offset) const { return data_ + offset; }

    /// Sets bytes to 0 after all earlier work of the device. Returns when done.
    void clear(Bytes offset, Bytes bytes) const;

    /// With contracts: the end of the highest byte that differs from the pattern, also after size().
    /// Otherwise 0.
    Bytes high_water() const;

private:
    static constexpr int untouched = 0xA5; ///< the pattern
    static constexpr Bytes slack = 4096;   ///< after the arena, so that an overrun shows in high_water()
    std::byte* data_ = nullptr;
    Bytes size_ = 0;
    Bytes mapped_ = 0;
};

/// The arenas of a run, one per space. In builds for devices both are on the device: `train` refuses offload
/// there, so only tests have a host arena.
class Arenas {
public:
    /// Bytes of each arena; `host` 0: no host arena. Throws as Arena().
    explicit Arenas(Bytes device, Bytes host = 0) : device_(device)
    {
        if (host > 0)
            host_.emplace(host);
    }

    /// \pre the run has an arena for that space
    const Arena& of(Space space) const { return space == Space::device ? device_ : host_.value(); }

private:
    Arena device_;
    std::optional<Arena> host_;
};

/// A range of an arena for the host: the arena's own bytes in builds for the host, a copy in builds for
/// devices.
class HostWindow {
public:
    /// \pre the range is within the arena, which outlives the window
    HostWindow(const Arena& arena, Bytes offset, Bytes bytes) : in_arena_(arena.at(offset)), bytes_(bytes)
    {
        TRV_CHECK(offset >= 0 && bytes >= 0 && offset + bytes <= arena.size(), "a window outside the arena");
    }

    /// Whether windows are the arena's own bytes. Then any thread may read a window while nothing writes it.
    static bool in_place();

    Bytes bytes() const { return bytes_; }
    /// Valid until release(). The content of a copy is undefined before pull().
    std::byte* data();
    /// Copies the content from the arena, after all earlier work of the device. Returns when done.
    void pull();
    /// Copies the content to the arena, after all earlier work of the device. Returns when done.
    void push();
    /// Frees the memory of a copy.
    void release();

private:
    std::byte* in_arena_;
    Bytes bytes_;
    std::vector<std::byte> copy_; ///< empty on the host
};

} // namespace trivium
