#pragma once
// Merges collectives into buckets. Local graph in and out.
#include "ir/graph.hpp"

#include <map>
#include <optional>
#include <vector>

namespace trivium {

/// Collectives that may be merged: they have the same kind, axis, combiner and element type, run in the same
/// region, phase and stage, are read in the same way, and wait for the same number of collectives that have
/// all this in common.
struct BucketClass {
    OpKind kind{};
    Region region{};
    Phase phase{}; ///< of a microbatch; otherwise forward
    int stage = 0; ///< of a microbatch; otherwise 0
    std::string axis;
    std::optional<Combine> combine;
    DType dtype{};
    bool awaited = false; ///< an all-reduce of a microbatch whose ops read the result
    int waits = 0;        ///< longest chain of such collectives before a member
    auto operator<=>(const BucketClass&) const = default;
};

/// A collective of a class.
struct BucketMember {
    OpId op;
    /// The op at whose place in a microbatch the collective is due: the first that reads a gather's result,
    /// or the last for which a reduction waits. Without such an op: the number of ops, or 0.
    std::size_t due = 0;
};

/// The members of each class that is not awaited, in the order in which buckets take them.
std::map<BucketClass, std::vector<BucketMember>> bucket_members(const Graph& graph);

struct BucketConfig {
    Bytes bytes =
        Bytes{25}
        << 20; ///< maximum bytes of a bucket, operands or results, whichever are larger; 0: no merging
    bool by_block = false;             ///< one bucket per block, regardless of `bytes`
    bool microbatches_by_block = true; ///< in microbatches one bucket per block, regardless of `by_block`
    Bytes most = 0; ///< maximum bytes of a bucket in microbatches, also of a block's bucket; 0: no maximum
    /// The same for all-reduces of a block that are awaited, by axis; of other axes they are not merged.
    std::map<std::string, Bytes> awaited{};
    /// For these classes, instead of the above: the number of members of each bucket, in the order of
    /// bucket_members(). \pre the numbers add up to the members
    std::map<BucketClass, std::vector<int>> sizes{};
};

/// Merges the members of each class into buckets. Prologue: in the order in which the microbatches first read
/// the results. Epilogue: in the order in which the microbatches finish the operands. Microbatches: gathers
/// of parameters, at the place of the bucket's first member, and others, at the place of its last member. A
/// tensor above the maximum is not merged. Bytes are those of rank 0, so that all ranks form
/// the same buckets. Results do not change, because reductions add in rank order in every bucket.
Graph bucket(Graph graph, const BucketConfig& config);

} // namespace trivium
