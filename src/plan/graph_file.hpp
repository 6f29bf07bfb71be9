#pragma once
// From a graph's text to a program: parse, verify, shard for a rank, schedule, plan the memory.
#include "plan/machine.hpp"

namespace trivium {

struct GraphProgram {
    Graph sharded; ///< the graph of all ranks with shardings; if the text is one rank's graph, that graph
    Graph graph;   ///< the rank's graph
    Schedule schedule;
    MemoryPlan memory;
};

/// `text` is the graph of all ranks, or of one rank (it has a line `at`). In the first case the graph of
/// `rank` is made. Throws UserError, placed in `file`, if the text or the graph is not legal or there is no
/// such rank.
GraphProgram compile_graph(std::string_view text, const std::string& file, const Machine& machine, i64 rank);

/// Throws UserError unless 0 <= rank < ranks.
void require_rank(i64 rank, i64 ranks);

} // namespace trivium
