#pragma once
// The object behind Exec::stream on a device.
#include "kernels/exec.hpp"

#include <memory>

namespace trivium::kernels {

/// The vendor's stream of `exec`, as void*, for libraries other than Kokkos.
void* stream_of(const Exec& exec);

/// Kokkos' execution space on a vendor's stream. The stream and a Runtime must outlive it.
class SpaceOnStream {
public:
    /// Waits for the stream.
    explicit SpaceOnStream(void* stream);
    SpaceOnStream(const SpaceOnStream&) = delete;
    SpaceOnStream& operator=(const SpaceOnStream&) = delete;
    ~SpaceOnStream();

    /// For kernels on the stream; valid during the lifetime of this object.
    Exec exec() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trivium::kernels
