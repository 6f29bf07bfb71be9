#pragma once
// Runs a program on all ranks and compares what it computes with the same program on one rank.
#include "programs/rank_run.hpp"

namespace trivium {

/// The largest difference of `got`, a box of a tensor, from `expected`, the whole tensor, relative to the
/// expected element, or to a hundredth of the tensor's largest finite magnitude if the element is less:
///
///     max over i of |got_i - expected_i| / max(|expected_i|, max_j |expected_j| / 100)
///
/// Infinite where only one of the two is a NaN, or an infinity. Equal elements, also NaNs, differ by 0. Of
/// integers it is the largest |got_i - expected_i|, without a denominator: 0 means equal.
double difference(const TensorType& whole, const std::byte* expected, const Box& box, const std::byte* got);

struct ComparedOutput {
    std::string name;
    TensorType type; ///< of the whole tensor
    Sharding sharding;
    double difference = 0; ///< over the boxes of all ranks
    TensorBytes whole;     ///< on rank 0, as the ranks computed it, if that was asked for
};

struct Comparison {
    std::vector<ComparedOutput> outputs; ///< in the order of the graph's
    double difference = 0;               ///< the largest; 0 without outputs
};

struct CompareConfig {
    RankRunConfig run;
    bool gather = false; ///< the whole outputs on rank 0
    /// decided_graph of the graph, if several ranks of a process share it; null: each rank makes it.
    const Graph* decided = nullptr;
    WorkPrices work{}; ///< with which it was made
};

/// Runs a graph that sharded_graph returned, on as many ranks as its mesh has; all call it. Only rank 0 holds
/// whole outputs, and runs the unpartitioned program. All ranks get the same differences.
Comparison compare_with_one_rank(const Graph& sharded, Comm& comm, const TensorSource& source,
                                 const CompareConfig& config);

} // namespace trivium
