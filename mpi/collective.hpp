#pragma once
// Collectives over a Comm: all-gather, reduce-scatter and all-reduce of tensors, in rounds that overlap with
// computation.
//
// A reduction adds (or multiplies, …) in rank order, in f32 (f64 for f64), independent of size, offset,
// bucket and scratch: every rank sends each peer its contribution to the peer's shard, and the peer adds. So
// merging or moving collectives changes no bit. bf16 is added in f32 and rounded once. i32 wraps. In large
// groups ranks forward each other's contributions (collective_radix), unchanged, which changes no bit either.
#include "ir/mesh.hpp"
#include "mpi/comm.hpp"

namespace trivium {

/// One tensor of a collective, seen as [outer, extent, inner] elements, row-major and dense; `extent` is the
/// dimension that part_of() shards over the group.
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
    DType type = DType::f32;        ///< any type; for reductions f64, f32, bf16 or i32
    Combine combine = Combine::sum; ///< of a reduction
    std::vector<Operand> operands;  ///< a bucket: several tensors in one collective
    int radix = 0;                  ///< of the exchange; 0: collective_radix()
};

/// How a group exchanges shards of at most `shard` bytes. `ranks`: each rank with each other one directly, in
/// ranks - 1 messages. Less, for large groups: in ⌈log_radix ranks⌉ phases of at most radix - 1 messages, in
/// which ranks forward each other's pieces, so that a piece travels up to as many times as there are phases
/// (J. Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing
/// systems", IEEE TPDS 8 (11), 1997, sections 3 and 4).
int collective_radix(int ranks, Bytes shard);

/// Minimum scratch, and the scratch for a single round; with less, a collective takes more rounds and gives
/// the same bits. The same on every rank. Tensors that are sent and received in place (one operand, outer =
/// 1) need no scratch for a gather, and only room for the peers' contributions for a reduction.
struct CollectiveScratch {
    Bytes least = 0, best = 0;
};
CollectiveScratch collective_scratch(const CollectiveShape& shape, int ranks);

/// A collective bound to its memory. It may run many times.
class Collective {
public:
    /// \pre scratch has at least collective_scratch().least bytes, aligned to 64, and the same size on all
    /// members. \throws InternalError if not, and for a reduction of other types, or of i32 by lse
    Collective(Comm& comm, CollectiveShape shape, Piece scratch);
    ~Collective();
    Collective(Collective&&) noexcept;

    /// Packs and posts the first round. All members start their collectives on one Comm in the same order.
    /// Several may run concurrently, each at its own pace. Operands and scratch must not be used until done.
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
