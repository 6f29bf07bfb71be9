#include "choose/search_config.hpp"

#include "base/host_memory.hpp"
#include "compile/simulated_step.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

Bytes memory_of_rank(const Machine& machine, i64 ranks)
{
    if (machine.is_device)
        return machine.memory;
    return (machine.memory > 0 ? machine.memory : std::max<Bytes>(0, available_host_memory())) /
           machine.ranks_of_a_node(ranks);
}

StageLimits SearchConfig::limits(const RunConfig& c) const
{
    return {c.parallel.memory_limit, memory(rank_count(c.parallel))};
}

double SearchConfig::room(const RunConfig& c) const
{
    const StageLimits most = limits(c);
    const double arena = most.arena > 0 ? as_double(most.arena) : INFINITY;
    return most.bytes > 0 ? std::min(arena, as_double(most.bytes - clock.process)) : arena;
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
