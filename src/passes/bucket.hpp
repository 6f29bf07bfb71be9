#pragma once
// Merges collectives that can be one. Local graph in and out.
#include "ir/graph.hpp"

namespace trivium {

struct BucketConfig {
    Bytes bytes =
        Bytes{25} << 20;   ///< of a bucket's operands, at most (a larger tensor is not merged); 0: no merging
    bool by_block = false; ///< a bucket for each block instead, whatever its bytes
};

/// Merges collectives of the prologue and of the epilogue that have one kind, axis, combiner and element type
/// and do not depend on one another: in the order in which the microbatches first read their results
/// (prologue) or finish their operands (epilogue). Results do not change: reductions add in rank order
/// whatever the bucket.
Graph bucket(Graph graph, const BucketConfig& config);

} // namespace trivium
