#pragma once
// Products of rows with the matrix of their expert. Which rows an expert has is in the counts, on a device
// in its memory, and changes from run to run.
#include "kernels/experts/rows.hpp"

#include <memory>

namespace trivium::kernels {

/// Which of the tensors rows [outer, ranks, rows, i], weights [weights(), i, j] and products [outer, ranks,
/// rows, j] is computed from the other two (rows.hpp: GroupedRows).
enum class GroupedKind { forward, grad_rows, grad_weight };

struct GroupedShape {
    GroupedRows rows{};
    i64 i = 0, j = 0;
    DType in = DType::f32;  ///< of both operands
    DType out = DType::f32; ///< `in`; for grad_weight its accumulator type
    auto operator<=>(const GroupedShape&) const = default;
};

/// A prepared product, like Product: preparing is slow, run() fast.
class GroupedProduct {
public:
    /// Uses as many threads, up to `threads`, as fit `most_scratch`, at least one.
    GroupedProduct(GroupedKind kind, const GroupedShape& shape, int threads = 1,
                   Bytes most_scratch = Bytes{32} << 20);
    GroupedProduct(GroupedProduct&&) noexcept;
    GroupedProduct& operator=(GroupedProduct&&) noexcept;
    ~GroupedProduct();

    /// Operands: rows and weights; products' gradient and weights; rows and products' gradient. Rows behind
    /// the last one of a rank are not read, and become 0. Only grad_weight may add to c instead of
    /// overwriting it. The tensors must not overlap. Not thread-safe.
    /// \throws InternalError if scratch.size < scratch_bytes()
    void run(const Exec& exec, const void* a, const void* b, const std::int32_t* counts, void* c,
             bool overwrite, Scratch scratch) const;

    Bytes scratch_bytes() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trivium::kernels
