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
    using Policy = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::Schedule<Kokkos::Static>,
                                       Kokkos::IndexType<int>>;
    static std::mutex one_at_a_time; // the ranks of a test are threads, and the space has one pool
    const std::lock_guard lock(one_at_a_time);
    Kokkos::parallel_for(label, Policy(0, threads), [&f, threads](int self) { f(self, threads); });
}

} // namespace on_host
} // namespace trivium::kernels
