#include "compile/threads.hpp"

#include "base/check.hpp"
#include "base/cores.hpp"

#include <algorithm>

namespace trivium {

int thread_count(const ParallelConfig& config, int limit, int sharers)
{
    if (config.threads > limit)
        throw UserError(
            {"parallel.threads", str("is ", config.threads),
             str("a rank can have ", limit, " here ($OMP_THREAD_LIMIT, or 1 in a build without OpenMP)"),
             "remove the key, or build with -DTRIVIUM_OPENMP=ON"});
    if (config.threads > 0)
        return static_cast<int>(config.threads);
    return std::clamp(usable_core_count() / sharers, 1, limit);
}

} // namespace trivium
