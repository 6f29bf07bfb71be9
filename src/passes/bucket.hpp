#pragma once
// Merges collectives into buckets. Local graph in and out.
#include "ir/graph.hpp"

#include <map>
#include <optional>
#include <vector>

namespace trivium {

/// Collectives that may be merged, since they have the same kind, axis, combiner and element type, run in the
/// same part of a step, and wait for equally many others of these.
struct BucketClass {
    OpKind kind{};
    Region region{};
    Phase phase{}; ///< of a microbatch; otherwise forward
    int stage = 0; ///< of a microbatch; otherwise 0
    std::string axis;
    std::optional<Combine> combine;
    DType dtype{};
    int waits = 0;
    auto operator<=>(const BucketClass&) const = default;
};

/// One of them.
struct BucketMember {
    OpId op;
    /// The op at whose place in a microbatch the collective is due: the first that reads what it gathers, or
    /// the last for which its reduction waits. Equal to the number of ops if there is none.
    std::size_t due = 0;
};

/// The members of each class, in the order in which buckets take them.
std::map<BucketClass, std::vector<BucketMember>> bucket_members(const Graph& graph);

struct BucketConfig {
    Bytes bytes =
        Bytes{25}
        << 20; ///< maximum bytes of a bucket's operands (a larger tensor is not merged); 0: no merging
    bool by_block = false;             ///< one bucket per block instead, regardless of its bytes
    bool microbatches_by_block = true; ///< this holds in microbatches, whatever `by_block`
    Bytes most = 0; ///< maximum bytes of a bucket in microbatches, also of a block's; 0: no maximum
    /// Instead, for these classes: the number of members of each bucket, in their order.
    std::map<BucketClass, std::vector<int>> sizes{};
};

/// Merges collectives that have the same kind, axis, combiner and element type and do not depend on each
/// other: of the prologue and of the epilogue, in the order in which the microbatches first read their
/// results (prologue) or finish their operands (epilogue); of each phase of a microbatch, those that gather
/// parameters, where the first was, and those that reduce gradients, where the last was. Results do not
/// change, because reductions add in rank order whatever the bucket.
Graph bucket(Graph graph, const BucketConfig& config);

} // namespace trivium
