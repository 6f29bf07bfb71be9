#pragma once
// A graph's text made ready to explain: parsed, verified, sharded for a rank, scheduled, with its memory
// planned.
#include "plan/machine.hpp"

namespace trivium {

struct GraphProgram {
    Graph sharded; ///< with the shardings of all ranks; one rank's graph as it stands
    Graph graph;   ///< what the rank runs
    Schedule schedule;
    MemoryPlan memory;
};

/// The graph that `text` describes is whole, or one rank's (it has a line `at`). Of a whole one with a mesh
/// of several ranks, the shard of `rank` is made. Throws UserError, placed in `file`, where the text or the
/// graph is not legal, or there is no such rank.
GraphProgram compile_graph(std::string_view text, const std::string& file, const Machine& machine, i64 rank);

/// Throws UserError where a mesh of `ranks` ranks has no `rank`.
void require_rank(i64 rank, i64 ranks);

} // namespace trivium
