#pragma once
// Merges collectives that may travel together. Local graph in and out.
#include "ir/graph.hpp"

namespace trivium {

struct BucketConfig {
    Bytes bytes =
        Bytes{25} << 20; ///< of a bucket's operands, at most (one larger tensor travels alone); 0: no merging
    bool by_block = false; ///< a bucket for each block instead, whatever its bytes
};

/// Merges collectives of the prologue and of the epilogue that are of one kind, axis, combiner and element
/// type and do not wait for one another: in the order in which the microbatches first read their results
/// (prologue) or are done with their operands (epilogue). The numbers stay what they are: reductions add in
/// rank order whatever the bucket.
Graph bucket(Graph graph, const BucketConfig& config);

} // namespace trivium
