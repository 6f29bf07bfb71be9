#include "kernels/runtime.hpp"

#include "base/check.hpp"
#include "cuda_check.hpp"

#include <Kokkos_Core.hpp>
#include <omp.h>

namespace trivium::kernels {

int thread_limit() { return omp_get_thread_limit(); }

Runtime::Runtime(int threads)
{
    TRV_CHECK(threads >= 1, "threads = ", threads);
    omp_set_dynamic(0);
    omp_set_num_threads(threads); // for work on the host
    if (!Kokkos::is_initialized()) {
        int device = 0; // Kokkos would choose a device from the launcher's environment
        check_cuda(cudaGetDevice(&device), "cudaGetDevice");
        Kokkos::initialize(Kokkos::InitializationSettings().set_device_id(device).set_num_threads(1));
        owner_ = true;
    }
}

Runtime::~Runtime()
{
    if (owner_)
        Kokkos::finalize();
}

} // namespace trivium::kernels
