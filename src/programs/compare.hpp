#pragma once
// Runs a program on all ranks and compares its outputs with those of the same program on one rank.
#include "programs/rank_run.hpp"

namespace trivium {

/// The largest difference of `got`, a box of a tensor, from `expected`, the whole tensor, relative to the
/// expected element, or to a hundredth of the tensor's largest finite magnitude if the element is less:
///
///     max over i of |got_i - expected_i| / max(|expected_i|, max_j |expected_j| / 100)
///
/// Infinite if unequal elements are not both finite. Equal elements, and two NaNs, differ by 0. For integers
/// it is the largest |got_i - expected_i|, without a denominator. Both arguments are row-major and dense.
double difference(const TensorType& whole, const std::byte* expected, const Box& box, const std::byte* got);

struct ComparedOutput {
    std::string name;
    TensorType type; ///< of the whole tensor
    Sharding sharding;
    double difference = 0; ///< over the boxes of all ranks
    TensorBytes whole;     ///< with CompareConfig::gather, on rank 0: the output of all ranks
};

struct Comparison {
    std::vector<ComparedOutput> outputs; ///< in the order of the graph's outputs
    double difference = 0;               ///< the largest of the outputs; 0 without outputs
    std::vector<Seconds> times;          ///< of RankRunConfig::repeats, on this rank
};

struct CompareConfig {
    RankRunConfig run;
    bool gather = false; ///< gather the whole outputs on rank 0
    /// decided_graph() of the graph, which several ranks of a process may share; null: each rank makes it.
    const Graph* decided = nullptr;
    WorkPrices work{};   ///< those of `decided`
    bool divide = false; ///< overlap_halos() of each rank's program, whatever it gains
};

/// Runs a graph from sharded_graph() on all ranks of its mesh. Collective over `comm`. Only rank 0 runs the
/// unpartitioned program and holds whole outputs. All ranks return the same differences. Throws as run_rank()
/// and decided_graph(). \pre comm.size() is the number of ranks of the mesh
Comparison compare_with_one_rank(const Graph& sharded, Comm& comm, const TensorSource& source,
                                 const CompareConfig& config);

} // namespace trivium
