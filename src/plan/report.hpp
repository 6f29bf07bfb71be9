#pragma once
// Plans as tables of text.
#include "schedule/memory.hpp"

namespace trivium {

/// The collectives and messages of a local graph, one row per group of equal ones: place, op, axis, count per
/// microbatch (or step), and the bytes that a rank sends for one, averaged over the ranks.
std::string communication_table(const Graph& graph);

/// Communication of one rank along one axis in one part of a step.
struct CommunicationTotal {
    std::string axis; ///< of the mesh, or "world"
    std::string part; ///< "forward" and "backward" of each microbatch, "prologue" and "epilogue" of each
                      ///< step, or "step": the whole one
    i64 times = 1;    ///< how often the part runs in an optimizer step
    i64 collectives = 0, sent = 0, received = 0; ///< ops of one run; sent and received are messages
    Bytes bytes = 0; ///< sent by the rank in one run, averaged over the ranks of the axis; at most 2^63 - 1
};

/// For each axis on which the local graph communicates: its parts in the order of a step, then their sum,
/// "step". With several axes, the last row is the sum over them, with axis "all".
std::vector<CommunicationTotal> communication_totals(const Graph& graph, i64 microbatches);
std::string totals_table(const std::vector<CommunicationTotal>& totals);

/// Each value with its sharding and the origin of that sharding.
std::string sharding_table(const Graph& graph);
/// Count and model FLOPs of each kind of op.
std::string flops_table(const Graph& graph);

// Legends, as comments of a graph's text.
extern const char* const sharding_legend; ///< <data,-|tensor:sum>
extern const char* const rule_legend;     ///< "b s d, d f -> b s f"
extern const char* const steps_legend;

/// One row per kind of buffer that is live at the peak, then the arenas, the snapshot and the process.
std::string memory_table(const MemoryPlan& plan);

} // namespace trivium
