#pragma once
// Collectives over a Comm: all-gather, reduce-scatter and all-reduce of tensors, in rounds that overlap with
// computation.
//
// A reduction combines contributions in rank order, in f32 (f64 for f64; i32 for i32, which wraps); bf16 is
// rounded once. Every rank sends each peer its contribution to the peer's shard, and the peer combines. In
// large groups, ranks forward contributions unchanged (collective_radix). So the bits do not depend on size,
// offset, bucket, scratch and radix: merging or moving collectives changes no bit.
#include "ir/mesh.hpp"
#include "mpi/comm.hpp"

namespace trivium {

/// One tensor of a collective, seen as [outer, extent, inner] elements, row-major and dense. part_of() shards
/// `extent` over the group: a rank's shard is [outer, part, inner].
///   all_gather:      in [outer, part, inner]   -> out [outer, extent, inner]
///   reduce_scatter:  in [outer, extent, inner] -> out [outer, part, inner]
///   all_reduce:      in, out [outer, extent, inner]; out may be in
struct Operand {
    i64 outer = 1, extent = 1, inner = 1;
    const void* in = nullptr;
    void* out = nullptr;
};

enum class CollectiveKind { all_gather, reduce_scatter, all_reduce };

struct CollectiveShape {
    CollectiveKind kind = CollectiveKind::all_gather;
    DType type = DType::f32;        ///< any type; for reductions f64, f32, bf16, or i32 (not by lse)
    Combine combine = Combine::sum; ///< of a reduction
    std::vector<Operand> operands;  ///< a bucket: several tensors in one collective
    int radix = 0;                  ///< of the exchange, see collective_radix(); 0: its result
};

/// The radix with which a group exchanges shards of at most `shard` bytes. A radix of `ranks` (at least 2):
/// each rank sends directly to each other rank, ranks - 1 messages. A smaller radix, for large groups:
/// ⌈log_radix ranks⌉ phases of at most radix - 1 messages, in which ranks forward each other's shards, so
/// that a shard is sent up to once per phase (J. Bruck et al., "Efficient algorithms for all-to-all
/// communications in multiport message-passing systems", IEEE TPDS 8 (11), 1997, sections 3 and 4).
int collective_radix(int ranks, Bytes shard);

/// Scratch of a collective, the same on every rank: the minimum, and the scratch for a single round. With
/// less than `best`, the collective takes more rounds and gives the same bits. If the radix is `ranks`,
/// shards of a single operand with outer = 1 (or of an all_reduce) are sent and received in place: a gather
/// needs no scratch, and a reduction only room for the peers' contributions.
struct CollectiveScratch {
    Bytes least = 0, best = 0;
};
CollectiveScratch collective_scratch(const CollectiveShape& shape, int ranks);

/// A collective bound to its buffers. It may run many times.
class Collective {
public:
    /// `comm` must outlive it. \pre scratch has at least collective_scratch().least bytes, aligned to 64, and
    /// the same size on all members \throws InternalError if not, and for a reduction of a type that has none
    /// (see CollectiveShape)
    Collective(Comm& comm, CollectiveShape shape, Piece scratch);
    ~Collective();
    Collective(Collective&&) noexcept;

    /// Packs and posts the first round. All members start their collectives on one Comm in the same order.
    /// Several may run concurrently, each at its own pace. Until the collective is done, the caller must not
    /// use operands and scratch.
    void start();
    /// Advances without waiting; true when done.
    bool progress();
    /// See Request::waits_for().
    std::vector<int> waits_for() const;
    /// Returns when done. Other running collectives do not advance meanwhile beyond their current round.
    void finish();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trivium
