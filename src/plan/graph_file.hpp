#pragma once
// From a graph's text to a program: parse, verify, shard for a rank, schedule, plan the memory.
#include "passes/runner.hpp"
#include "passes/sharding/partition.hpp"
#include "plan/machine.hpp"
#include "schedule/lay_out.hpp"

#include <map>

namespace trivium {

using Shardings = std::map<ValueId, Sharding>;

struct GraphProgram {
    /// Program::sharded is decided_graph(): the graph of all ranks, with final shardings; or the given graph
    /// of one rank.
    Program program;
    Shardings propagated; ///< by propagation alone, of values of that graph with another one
    MemoryPlan memory;    ///< of the device arena
    std::vector<PassRecord> passes;
};

/// Parses and verifies the graph of all ranks, or of one rank if the text has a line `at`. Throws UserError,
/// placed in `file`, if the text or the graph is not legal, or if a graph of all ranks shards a value over
/// the axis of pipeline stages, or communicates, except by exchange_rows, which the partitioner divides.
Graph read_graph(std::string_view text, const std::string& file);

// The three steps of compile_graph(). `runner`: null: a new one.

/// Propagates the shardings of a graph of all ranks. A graph on one rank does not change.
Graph sharded_graph(Graph graph, PassRunner* runner = nullptr);
/// The lookahead over a graph from sharded_graph(), the same for all ranks. Throws UserError if the stages of
/// a pipeline cannot run together (check_steps.hpp). A graph on one rank does not change.
Graph decided_graph(const Graph& sharded, const WorkPrices& work = {}, PassRunner* runner = nullptr);
/// part_of_rank() and finish_local(); on one rank finish_local() alone. `decided`:
/// from decided_graph().
Graph rank_graph(const Graph& decided, i64 rank, const WorkPrices& work = {}, PassRunner* runner = nullptr);
/// rank_graph() of decided_graph(). `sharded`: from sharded_graph().
Graph local_graph(const Graph& sharded, i64 rank, const WorkPrices& work = {});

/// Compiles `text`, the graph of all ranks, for `rank`; or the graph of one rank (with a line `at`) as it is.
/// Throws UserError as read_graph() and decided_graph(), or if there is no such rank.
GraphProgram compile_graph(std::string_view text, const std::string& file, const Machine& machine, i64 rank,
                           const RunnerConfig& runner = {});

/// Throws UserError unless 0 <= rank < ranks.
void require_rank(i64 rank, i64 ranks);

} // namespace trivium
