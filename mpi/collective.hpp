#pragma once
// Collectives over a Comm: gather, reduce and scatter of tensors, in steps that overlap with computation.
//
// A reduction adds in the order of the group's ranks, in f32 (f64 for f64) whatever the size, the offset, the
// bucket or the scratch: every rank sends each peer its contribution to the peer's part, and the peer adds.
// So merging or moving collectives changes no bit. bf16 is added in f32 and rounded once.
#include "ir/mesh.hpp"
#include "mpi/comm.hpp"

namespace trivium {

/// One tensor of a collective, seen as [outer, extent, inner] elements, row-major and dense; `extent` is the
/// dimension that is cut over the group by part_of().
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
    DType type = DType::f32; ///< any; reductions: f64, f32, bf16
    Combine combine = Combine::sum;
    std::vector<Operand> operands; ///< a bucket: several tensors in one collective
};

/// Least scratch, and the scratch with which it takes one round; with less it takes more rounds, with the
/// same bits. The same on every rank. Tensors that are sent as they lie and arrive in place (one operand,
/// outer = 1) need none to be gathered, and the contributions of the others to be reduced.
struct CollectiveScratch {
    Bytes least = 0, best = 0;
};
CollectiveScratch collective_scratch(const CollectiveShape& shape, int ranks);

/// A collective with its memory bound, that may run many times.
class Collective {
public:
    /// \pre scratch has at least collective_scratch().least bytes, aligned to 64, and the same size on all
    /// members. \throws InternalError where not, and for a reduction of i32
    Collective(Comm& comm, CollectiveShape shape, Piece scratch);
    ~Collective();
    Collective(Collective&&) noexcept;

    /// Begins: packs and posts the first round. All members start their collectives on one Comm in the same
    /// order; several may be under way, and advance at their own pace. Operands and scratch are its own until
    /// it is over.
    void start();
    /// Drives it on without waiting; true once it is over.
    bool progress();
    /// As Request::waits_for().
    std::vector<int> waits_for() const;
    /// Returns when it is over. Others that are under way do not advance meanwhile, beyond their present
    /// round.
    void finish();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trivium
