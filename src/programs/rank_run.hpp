#pragma once
// Runs the program of one rank once: prologue, one microbatch, epilogue.
#include "mpi/delay_comm.hpp"
#include "passes/sharding/partition.hpp"
#include "programs/tensors.hpp"
#include "schedule/schedule.hpp"

namespace trivium {

struct RankRunConfig {
    ScratchBudget scratch; ///< of kernels; the same on all ranks
    int threads = 1;
    LinkDelay delay{}; ///< of each rank's link
    /// Further runs that are timed, each from the time when all ranks are ready until the last has ended.
    int repeats = 0;
    std::vector<Seconds>* times = nullptr; ///< for `repeats`, by run
};

/// The shard of a tensor that a rank holds.
struct TensorShard {
    std::string name;
    TensorType type; ///< of the whole tensor
    Sharding sharding;
    Box box;
    TensorBytes data; ///< of the box; empty: another pipeline stage has it
};

/// The program of one rank, and the graph of all ranks from which it was made.
struct RankProgram {
    const Graph& global; ///< of all ranks: names, types and partial shardings for the TensorSource
    Graph local;         ///< of one rank, with the outputs of `global` in the same order
};

/// Runs `program` on this rank of `comm` once. Returns the rank's shard of each output. Collective over
/// `comm`, each rank with its own program; it reads its boxes from `source`. A process that makes several
/// calls must hold a Computing (runtime/device.hpp). Throws UserError for outputs that an executor cannot
/// fetch; on all ranks IoError if one has too little memory.
std::vector<TensorShard> run_rank(const RankProgram& program, Comm& comm, const TensorSource& source,
                                  const RankRunConfig& config);

/// The graph without mesh, shardings and manual regions (unroll_manual); reshard ops are copies, or left out
/// if they move integers. The outputs are those of `graph` in the same order, under other names where an op
/// is left out.
Graph unpartitioned(const Graph& graph);

/// The program of `rank`: local_graph() of a graph from sharded_graph(), or unpartitioned() if the mesh has
/// one rank. `sharded` must outlive it. `decided`: decided_graph(sharded), if it is known.
RankProgram program_of_rank(const Graph& sharded, i64 rank, const Graph* decided = nullptr,
                            const WorkPrices& work = {});

} // namespace trivium
