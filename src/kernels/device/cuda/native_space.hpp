#pragma once
// Kokkos' execution space on a CUDA stream (void*). hip/native_space.hpp has the same functions.
#include <Kokkos_Core.hpp>
#include <cuda_runtime_api.h>

namespace trivium::kernels {

inline Kokkos::DefaultExecutionSpace space_on(void* stream)
{
    return Kokkos::DefaultExecutionSpace(static_cast<cudaStream_t>(stream));
}
inline void* stream_under(const Kokkos::DefaultExecutionSpace& space) { return space.cuda_stream(); }

} // namespace trivium::kernels
