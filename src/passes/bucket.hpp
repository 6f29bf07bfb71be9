#pragma once
// Merges collectives into buckets. Local graph in and out.
#include "ir/graph.hpp"

namespace trivium {

struct BucketConfig {
    Bytes bytes =
        Bytes{25}
        << 20; ///< maximum bytes of a bucket's operands (a larger tensor is not merged); 0: no merging
    bool by_block = false;             ///< one bucket per block instead, regardless of its bytes
    bool microbatches_by_block = true; ///< this holds in microbatches, whatever `by_block`
};

/// Merges collectives that have the same kind, axis, combiner and element type and do not depend on each
/// other: of the prologue and of the epilogue, in the order in which the microbatches first read their
/// results (prologue) or finish their operands (epilogue); of each phase of a microbatch, those that gather
/// parameters, where the first was, and those that reduce gradients, where the last was. Results do not
/// change, because reductions add in rank order whatever the bucket.
Graph bucket(Graph graph, const BucketConfig& config);

} // namespace trivium
