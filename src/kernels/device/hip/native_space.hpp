#pragma once
// Kokkos' execution space on a HIP stream (void*). cuda/native_space.hpp has the same functions.
#include <Kokkos_Core.hpp>
#include <hip/hip_runtime_api.h>

namespace trivium::kernels {

inline Kokkos::DefaultExecutionSpace space_on(void* stream)
{
    return Kokkos::DefaultExecutionSpace(static_cast<hipStream_t>(stream));
}
inline void* stream_under(const Kokkos::DefaultExecutionSpace& space) { return space.hip_stream(); }

} // namespace trivium::kernels
