#pragma once
// Threads of the host by OpenMP, where Kokkos has only its serial space (Debian's). kokkos/threads.hpp has
// the same names.
#include "kernels/host/kernel_scope.hpp"

#include <cstdlib>
#include <omp.h>

namespace trivium::kernels {
inline namespace on_host {

/// Initialises Kokkos, whose parallel host space (in builds with one) gets `threads` threads.
inline void start_kokkos(int)
{
    if constexpr (KOKKOS_VERSION < 30700) // under the variable's former name
        if (const char* const tools = std::getenv("KOKKOS_TOOLS_LIBS"))
            setenv("KOKKOS_PROFILE_LIBRARY", tools, 0);
    Kokkos::initialize();
}

/// Calls f(self, count) for self in [0, count), count <= threads, concurrently; Kokkos' tools see them as one
/// kernel `label`. Calls must not wait for each other, because fewer threads may run them.
template <class F>
void on_threads(const char* label, int threads, const F& f)
{
    const KernelScope scope(label);
    if (threads <= 1)
        return f(0, 1);
#pragma omp parallel num_threads(threads)
    f(omp_get_thread_num(), omp_get_num_threads());
}

} // namespace on_host
} // namespace trivium::kernels
