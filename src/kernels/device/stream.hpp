#pragma once
// The object behind Exec::stream on a device.
#include "kernels/exec.hpp"

#include <cuda_runtime_api.h>
#include <memory>

namespace trivium::kernels {

/// The stream of `exec`, for kernels and libraries other than Kokkos.
cudaStream_t stream_of(const Exec& exec);

/// Kokkos' execution space on a CUDA stream, which must outlive it, as a Runtime must.
class SpaceOnStream {
public:
    explicit SpaceOnStream(cudaStream_t stream);
    SpaceOnStream(const SpaceOnStream&) = delete;
    SpaceOnStream& operator=(const SpaceOnStream&) = delete;
    ~SpaceOnStream();

    /// For Exec::stream; valid during the lifetime of this object.
    void* address() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trivium::kernels
