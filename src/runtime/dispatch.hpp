#pragma once
// Binds each op of the graph to a kernel call: one line per op.
#include "ir/ops/op_table.hpp"
#include "kernels/exec.hpp"

#include <functional>
#include <memory>
#include <span>

namespace trivium {

/// A kernel with its shapes and addresses; a Step runs it.
using Call = std::function<void(const kernels::Exec&)>;

/// An op with its memory.
struct Binding {
    const Graph* graph = nullptr;
    const Op* op = nullptr;
    std::vector<void*> operands, results; ///< addresses in the arena, by position
    /// By position: elements between rows of a value that is columns of a wider one; 0: dense. Empty: all are
    /// dense.
    std::vector<i64> operand_rows, result_rows;
    kernels::Scratch scratch;
    bool overwrite = false;                  ///< an accumulating op stores instead of adding
    bool cudnn = true, deterministic = true; ///< as in kernels::AttentionShape
};

/// Whether a single launch can run both ops, of any sizes, if neither reads a result of the other: updates of
/// one step, sums of squares, or casts, with the same element types.
bool can_bind_together(const Binding& first, const Binding& next);

/// Makes Calls, which it must outlive; caches the compiled products and convolutions by shape.
class Dispatch {
public:
    explicit Dispatch(int threads);
    ~Dispatch();

    /// Throws InternalError for an op without a kernel. If the scratch is too small, bind() or the Call
    /// throws it.
    Call bind(const Binding& binding);
    /// One launch for several ops, with the same results (sums of squares: as many as the scratch allows).
    /// Their buffers, except scratch, must be live at the same time. \pre at least one binding. Throws
    /// InternalError unless can_bind_together() holds for the first and each other one.
    Call bind_together(std::span<const Binding> bindings);

private:
    struct Products;
    Call bind_product(const Binding& binding);
    Call bind_convolution(const Binding& binding);
    Call bind_grouped_product(const Binding& binding);

    int threads_;
    std::unique_ptr<Products> products_;
};

} // namespace trivium
