#pragma once
// Internal: what each op costs a rank, for the clock of simulate() (cost.cpp). docs/planner.md has the
// formulas.
#include "plan/cost.hpp"

namespace trivium {

/// The links of a rank that collectives share.
enum class Link { none, within_node, between_nodes };

/// The duration of an op: `alone`, of which it occupies `link` for `moving`. `copying`: how long a core
/// copies for it instead of computing (on CPUs). `share`: the part of the compute that it takes while it runs
/// (on devices).
struct OpCost {
    Seconds alone = 0, moving = 0;
    Link link = Link::none;
    Seconds copying = 0;
    double share = 0;
};

/// By op, on `threads` threads of `machine`.
std::vector<OpCost> op_costs(const Graph& graph, const Machine& machine, i64 threads);

} // namespace trivium
