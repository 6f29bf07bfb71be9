#include "base/host_memory.hpp"
#include "choose/search.hpp"
#include "compile/simulated_step.hpp"

#include <algorithm>

namespace trivium {

Bytes memory_of_rank(const Machine& machine, i64 ranks)
{
    if (machine.is_device)
        return machine.memory;
    return (machine.memory > 0 ? machine.memory : std::max<Bytes>(0, available_host_memory())) /
           machine.ranks_of_a_node(ranks);
}

SearchConfig search_on(const Machine& machine, const ParallelConfig& links, int thread_limit)
{
    return {[=](i64 ranks) { return memory_of_rank(machine, ranks); },
            with_delay(machine, links.delay_latency, links.delay_bandwidth),
            [=](const ParallelConfig& grid) {
                return static_cast<i64>(planned_threads(grid, machine, thread_limit));
            }};
}

} // namespace trivium
