#include "kernels/runtime.hpp"

#include "base/check.hpp"
#include "kernels/ranges.hpp"
#include "row_parallel.hpp"

#include <omp.h>

namespace trivium::kernels {

int thread_limit() { return omp_get_thread_limit(); }

Runtime::Runtime(int threads)
{
    TRV_CHECK(threads >= 1, "threads = ", threads);
    omp_set_dynamic(0);
    omp_set_num_threads(threads); // oneDNN follows OpenMP
    if (!Kokkos::is_initialized()) {
        start_kokkos(threads);
        owner_ = true;
    }
}

Runtime::~Runtime()
{
    if (owner_)
        Kokkos::finalize();
}

void for_ranges(const Exec& exec, i64 n, const std::function<void(i64, i64)>& f)
{
    for_parts(exec, "ranges", n, 1, f);
}

} // namespace trivium::kernels
