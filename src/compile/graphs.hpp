#pragma once
// Internal: what the programs of a training share with those that are not trained (forward.hpp).
#include "compile/compile.hpp"
#include "model/model.hpp"

namespace trivium {

/// What the graphs of all programs have in common.
GraphConfig graph_config(const RunConfig& config);

/// Whether microbatches gather the parameters that they read (ZeRO stage 3), or the prologue of a step.
bool gathers_in_microbatches(const ParallelConfig& p);
/// Whether microbatches reduce their gradients to shards (ZeRO stages 2 and 3), or the epilogue.
bool reduces_in_microbatches(const ParallelConfig& p);
/// Either.
inline bool transfers_in_microbatches(const ParallelConfig& p)
{
    return gathers_in_microbatches(p) || reduces_in_microbatches(p);
}
/// Lets microbatches gather what they read, large weights in tiles. Names of passes get `suffix`.
Graph gathered(Graph g, const ParallelConfig& p, const std::string& suffix, PassRunner& runner);

/// With a sharding for every value. `moves_weights`: ops may move what they read of the prologue, as the
/// weights of a program that are sharded over more axes than its products use. `known`:
/// PartitionConfig::moves.
Graph sharded(Graph g, const std::string& suffix, bool moves_weights, const WorkPrices& work,
              MovePrices* known, PassRunner& runner);

/// The program `eval` of all ranks. Parameters are laid out as in `kept`, if it is given, because the
/// programs share them; otherwise as a training lays them out.
Graph evaluation_graph(const RunConfig& config, const WorkPrices& work, MovePrices* known, PassRunner& runner,
                       const Graph* kept = nullptr);

/// Shards the parameters as the optimizer of a training with ZeRO shards its states. \pre
/// complete_annotations()
void shard_parameters(Graph& graph, const ParallelConfig& p);

/// Of the names of a program's passes.
std::string suffix_of(const Graph& sharded);

/// Makes Steps and arenas of the programs, in place.
void lay_out(Compiled& compiled, const RunConfig& config, const Machine& machine, bool offsets = true);

} // namespace trivium
