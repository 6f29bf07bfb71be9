#include "kernels/runtime.hpp"

#include "base/check.hpp"
#include "kernels/device/vendor.hpp"
#include "kernels/ranges.hpp"

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
        // Kokkos would choose a device from the launcher's environment.
        Kokkos::initialize(
            Kokkos::InitializationSettings().set_device_id(current_index()).set_num_threads(1));
        omp_set_num_threads(threads); // Kokkos may have set its own
        owner_ = true;
    }
}

Runtime::~Runtime()
{
    if (owner_ && !device_failed())
        Kokkos::finalize();
}

void for_ranges(const Exec&, i64 n, const std::function<void(i64, i64)>& f) { f(0, n); }

} // namespace trivium::kernels
