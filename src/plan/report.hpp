#pragma once
// Plans as tables of text.
#include "schedule/memory.hpp"

namespace trivium {

/// The collectives and messages of a local graph, one row per run of equal ones: phase or region, block, op,
/// axis, scope, tensors, the bytes of one (mean_bytes_sent()), and their count per microbatch or step.
std::string communication_table(const Graph& graph);

/// Communication of one rank along one axis in one part of a step.
struct CommunicationTotal {
    std::string axis; ///< of the mesh, a joint axis ("x+y"), "world", or "all"
    std::string part; ///< "forward" or "backward" of each microbatch, "prologue" or "epilogue" of each step,
                      ///< or "step": the sum over all parts
    i64 times = 1;    ///< runs of the part in an optimizer step
    /// Collectives, sent messages and received messages of one run of the part.
    i64 collectives = 0, sent = 0, received = 0;
    Bytes bytes = 0; ///< sent in one run of the part (mean_bytes_sent()); saturates at 2^63 - 1
};

/// For each axis on which the local graph communicates: the parts in the order of a step, then their sum,
/// "step". With several axes, the last row is the sum over all axes, with axis "all".
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

/// One row per kind of buffer that is alive at the peak, then the arenas, the snapshot and the process.
std::string memory_table(const MemoryPlan& plan);

} // namespace trivium
