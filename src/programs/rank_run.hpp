#pragma once
// Runs the program of one rank once: a microbatch, then the epilogue.
#include "mpi/comm.hpp"
#include "passes/partition.hpp"
#include "programs/tensors.hpp"
#include "schedule/schedule.hpp"

namespace trivium {

struct RankRunConfig {
    ScratchBudget scratch; ///< of kernels; the same on all ranks
    int threads = 1;
};

/// What a rank holds of a tensor.
struct TensorShard {
    std::string name;
    TensorType type; ///< of the whole tensor
    Sharding sharding;
    Box box;
    TensorBytes data; ///< of the box
};

/// The program of one rank, with its place in that of all ranks.
struct RankProgram {
    const Graph& global; ///< all ranks' graph, from which `source` gets names, types and partial shardings
    Graph local;         ///< this rank's, with the outputs of `global` in the same order
};

/// Runs `program` on this rank of `comm` once and returns its part of each output, then of each value of the
/// rank's graph in `more`. All ranks call it with the graphs of their ranks; each rank gets its boxes from
/// `source`. A process that makes several calls must hold a Computing. Throws UserError for outputs that an
/// executor cannot fetch, IoError if there is too little memory.
std::vector<TensorShard> run_rank(const RankProgram& program, Comm& comm, const TensorSource& source,
                                  const RankRunConfig& config, const std::vector<std::string>& more = {});

/// The graph without mesh, shardings and manual regions (unroll_manual); reshard ops are copies. Its outputs
/// are those of `graph` in the same order, under other names where an op is left out.
Graph unpartitioned(const Graph& graph);

/// The program of `rank`: local_graph of a graph that sharded_graph returned, or unpartitioned() if the mesh
/// has one rank. `decided`: decided_graph(sharded), if it is known.
RankProgram program_of_rank(const Graph& sharded, i64 rank, const Graph* decided = nullptr,
                            const WorkPrices& work = {});

} // namespace trivium
