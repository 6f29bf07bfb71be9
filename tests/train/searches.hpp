#pragma once
// Searches for a machine on which transfers of small models take time.
#include "base/check.hpp"
#include "choose/decide.hpp"
#include "choose/search.hpp"

namespace trivium {

/// Nodes of four ranks, with links that make transfers matter for small models.
inline Machine small_nodes(Bytes memory = 0)
{
    Machine machine = machine_called("cpu");
    machine.name = "small";
    machine.is_device = true;
    machine.process = 0;
    machine.scratch = {1 << 16, 1 << 16, 1 << 16, 1 << 16};
    machine.ranks_per_node = 4;
    machine.link_bytes_per_second = 2e10;
    machine.node_link_bytes_per_second = 2e9;
    machine.node_link_latency = 1e-5;
    machine.memory = memory;
    return machine;
}

inline SearchResult search(const RunConfig& c, i64 ranks, const Machine& machine)
{
    Compiling estimator(machine);
    return search_strategies(c, ranks, search_on(machine, c.parallel, 1), estimator);
}

/// The simulated step of a config in which some settings were drawn; 0 if it is not legal or too large.
inline Seconds step_of(RunConfig c, const Machine& machine)
{
    try {
        resolve_and_validate(c);
        Compiling estimator(machine);
        const Choices choices = decide(c, estimator);
        const Score score = estimator.score({choices.config, choices.order}, machine, {0, machine.memory});
        return score.fits ? score.step : 0;
    } catch (const UserError&) {
        return 0;
    }
}

} // namespace trivium
