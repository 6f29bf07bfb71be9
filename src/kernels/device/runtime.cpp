#include "kernels/runtime.hpp"

#include "base/check.hpp"
#include "cuda_check.hpp"

#include <Kokkos_Core.hpp>
#include <omp.h>

namespace trivium::kernels {

Runtime::Runtime(int threads)
{
    TRV_CHECK(threads >= 1, "threads = ", threads);
    // Kokkos would only say that it could not start.
    const char* reason = nullptr;
    if (usable_devices(&reason) == 0)
        throw UserError({"device", "this build computes on NVIDIA GPUs and finds none here", reason,
                         "run it on a node with a GPU and its driver, or use a build of the preset 'default', "
                         "which computes on CPUs"});
    omp_set_dynamic(0);
    omp_set_num_threads(threads); // the host's own work
    if (!Kokkos::is_initialized()) {
        Kokkos::initialize();
        owner_ = true;
    }
}

Runtime::~Runtime()
{
    if (owner_)
        Kokkos::finalize();
}

} // namespace trivium::kernels
