#pragma once
// What was planned, as tables for people.
#include "schedule/memory.hpp"

namespace trivium {

/// The collectives and messages of a local graph, one row for those alike: where, what, along which axis, how
/// often a microbatch (or step), and the bytes that a rank sends for one, on average.
std::string communication_table(const Graph& graph);

/// What one rank communicates along one axis in one part of a step.
struct CommunicationTotal {
    std::string axis; ///< of the mesh, or "world"
    std::string part; ///< "forward" and "backward" of each microbatch, "prologue" and "epilogue" of each
                      ///< step, or "step": the whole one
    i64 times = 1;    ///< how often the part runs in an optimizer step
    i64 collectives = 0, sent = 0, received = 0; ///< ops of one run; sent and received are messages
    Bytes bytes =
        0; ///< that the rank sends in one run, on average over the ranks of the axis; at most 2^63 - 1
};

/// Of each axis on which the local graph communicates: its parts in the order of a step, then the sum,
/// "step". Last, where there are several axes, the sum over them, whose axis is "all".
std::vector<CommunicationTotal> communication_totals(const Graph& graph, i64 microbatches);
std::string totals_table(const std::vector<CommunicationTotal>& totals);

/// Each value with its sharding, and what decided that.
std::string sharding_table(const Graph& graph);
/// How often each kind of op stands in the graph, and its model flops.
std::string flops_table(const Graph& graph);

// What the signs mean, as comments of a graph's text.
extern const char* const sharding_legend; ///< <data,-|tensor:sum>
extern const char* const rule_legend;     ///< "b s d, d f -> b s f"
extern const char* const steps_legend;

/// A row per kind that is live at the peak, then the arena and what stands beside it.
std::string memory_table(const MemoryPlan& plan);

} // namespace trivium
