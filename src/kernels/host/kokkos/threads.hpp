#pragma once
// Threads of the host by Kokkos' parallel host space. openmp/threads.hpp has the same names.
#include "kernels/host/kernel_scope.hpp"

#include <mutex>

namespace trivium::kernels {
inline namespace on_host {

inline void start_kokkos(int threads)
{
    // Its warnings are about the pinning of threads, which is the launcher's.
    Kokkos::initialize(Kokkos::InitializationSettings().set_num_threads(threads).set_disable_warnings(true));
}

template <class F>
void on_threads(const char* label, int threads, const F& f)
{
    if (threads <= 1) {
        const KernelScope scope(label);
        return f(0, 1);
    }
    using Space = Kokkos::DefaultHostExecutionSpace;
    using Policy = Kokkos::RangePolicy<Space, Kokkos::Schedule<Kokkos::Static>, Kokkos::IndexType<int>>;
    static const Space space;        // making one allocates
    static std::mutex one_at_a_time; // the ranks of a test are threads, and the space has one pool
    const std::lock_guard lock(one_at_a_time);
    const auto call = [&f, threads](int self) { f(self, threads); };
    if (Kokkos::Profiling::profileLibraryLoaded())
        Kokkos::parallel_for(label, Policy(space, 0, threads, Kokkos::ChunkSize(1)), call);
    else // a long label would be copied to the heap
        Kokkos::parallel_for(Policy(space, 0, threads, Kokkos::ChunkSize(1)), call);
}

} // namespace on_host
} // namespace trivium::kernels
