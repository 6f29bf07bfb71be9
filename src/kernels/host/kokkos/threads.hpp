#pragma once
// Threads of the host by Kokkos' parallel host space. See openmp/threads.hpp, which has the same names.
#include "kernels/host/kernel_scope.hpp"

#include <thread>

namespace trivium::kernels {
inline namespace on_host {

/// The thread that initialised Kokkos, whose pool serves only this thread. on_threads() on any other thread
/// (a rank of a test) uses that thread alone.
inline std::thread::id starter;

inline void start_kokkos(int threads)
{
    starter = std::this_thread::get_id();
    // Kokkos warns about the pinning of threads, which the launcher decides.
    Kokkos::initialize(Kokkos::InitializationSettings().set_num_threads(threads).set_disable_warnings(true));
}

template <class F>
void on_threads(const char* label, int threads, const F& f)
{
    if (threads <= 1 || std::this_thread::get_id() != starter) {
        const KernelScope scope(label);
        return f(0, 1);
    }
    using Space = Kokkos::DefaultHostExecutionSpace;
    using Policy = Kokkos::RangePolicy<Space, Kokkos::Schedule<Kokkos::Static>, Kokkos::IndexType<int>>;
    static const Space space; // making one allocates
    const auto call = [&f, threads](int self) { f(self, threads); };
    if (Kokkos::Profiling::profileLibraryLoaded())
        Kokkos::parallel_for(label, Policy(space, 0, threads, Kokkos::ChunkSize(1)), call);
    else // a long label would be copied to the heap
        Kokkos::parallel_for(Policy(space, 0, threads, Kokkos::ChunkSize(1)), call);
}

} // namespace on_host
} // namespace trivium::kernels
