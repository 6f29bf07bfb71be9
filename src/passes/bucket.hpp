#pragma once
// Merges collectives into buckets. Local graph in and out.
#include "ir/graph.hpp"

namespace trivium {

struct BucketConfig {
    Bytes bytes =
        Bytes{25}
        << 20; ///< maximum bytes of a bucket's operands (a larger tensor is not merged); 0: no merging
    bool by_block = false; ///< one bucket per block instead, regardless of its bytes
};

/// Merges collectives of the prologue and of the epilogue that have the same kind, axis, combiner and element
/// type and do not depend on each other, in the order in which the microbatches first read their results
/// (prologue) or finish their operands (epilogue). Results do not change, because reductions add in rank
/// order whatever the bucket.
Graph bucket(Graph graph, const BucketConfig& config);

} // namespace trivium
