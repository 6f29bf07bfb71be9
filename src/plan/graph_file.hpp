#pragma once
// From a graph's text to a program: parse, verify, shard for a rank, schedule, plan the memory.
#include "passes/partition.hpp"
#include "plan/machine.hpp"
#include "schedule/lay_out.hpp"

#include <map>

namespace trivium {

using Shardings = std::map<ValueId, Sharding>;

struct GraphProgram {
    /// Program::sharded: the graph of all ranks with the shardings with which it runs (decided_graph); if the
    /// text is one rank's graph, that graph.
    Program program;
    Shardings propagated; ///< the shardings that propagation found, of values that run with others
    MemoryPlan memory;    ///< of the device arena
};

/// The graph of a file, verified. It is that of all ranks, or of one rank if it has a line `at`. Throws
/// UserError, placed in `file`, if the text or the graph is not legal, or if the graph of all ranks has
/// collectives or messages.
Graph read_graph(std::string_view text, const std::string& file);

/// The passes on a graph of all ranks: sharded_graph propagates its shardings, local_graph makes of the
/// result the graph of one rank: lookahead, stages, partition, simplify, join reductions, bucket. A graph on
/// one rank stays as it is.
Graph sharded_graph(Graph graph);
Graph local_graph(const Graph& sharded, i64 rank, const WorkPrices& work = {});
/// local_graph in two halves, for a process with several ranks: what is the same for all, and the rest.
Graph decided_graph(const Graph& sharded, const WorkPrices& work = {});
Graph rank_graph(const Graph& decided, i64 rank, const WorkPrices& work = {});

/// `text` is the graph of all ranks, or of one rank (it has a line `at`). In the first case the graph of
/// `rank` is made. Throws UserError as read_graph, or if there is no such rank.
GraphProgram compile_graph(std::string_view text, const std::string& file, const Machine& machine, i64 rank);

/// Throws UserError unless 0 <= rank < ranks.
void require_rank(i64 rank, i64 ranks);

} // namespace trivium
