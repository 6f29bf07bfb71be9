#pragma once
// The object behind Exec::stream on a device.
#include "kernels/exec.hpp"

#include <memory>

namespace trivium::kernels {

/// The vendor's stream (as void*) of `exec`, for libraries other than Kokkos.
void* stream_of(const Exec& exec);

/// Kokkos' execution space on a stream, which must outlive it, as a Runtime must.
class SpaceOnStream {
public:
    explicit SpaceOnStream(void* stream);
    SpaceOnStream(const SpaceOnStream&) = delete;
    SpaceOnStream& operator=(const SpaceOnStream&) = delete;
    ~SpaceOnStream();

    /// Runs kernels on it; valid during the lifetime of this object.
    Exec exec() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trivium::kernels
