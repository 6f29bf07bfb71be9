#pragma once
// Binds each op of the graph to a kernel call: one line per op.
#include "ir/op_table.hpp"
#include "kernels/exec.hpp"

#include <functional>
#include <memory>
#include <span>

namespace trivium {

/// A kernel with its shapes and addresses; a Step runs it.
using Call = std::function<void(const kernels::Exec&)>;

/// The memory of an op.
struct Binding {
    const Graph* graph = nullptr;
    const Op* op = nullptr;
    std::vector<void*> operands, results; ///< addresses in the arena, by position
    /// Elements between rows, by position, of what is columns of a wider value; 0: dense. Empty: all are.
    std::vector<i64> operand_rows, result_rows;
    kernels::Scratch scratch;
    bool overwrite = false;                  ///< for an accumulating op
    bool cudnn = true, deterministic = true; ///< for attention, as in its shape
};

/// Whether a single launch can run both ops, of any sizes, if neither reads a result of the other: updates of
/// one step, sums of squares, casts of one type to another.
bool can_bind_together(const Binding& first, const Binding& next);

/// Makes Calls; caches the compiled products and convolutions by shape.
class Dispatch {
public:
    explicit Dispatch(int threads);
    ~Dispatch();

    /// Throws InternalError for an op without kernel, or if its kernel needs more scratch than it gets.
    Call bind(const Binding& binding);
    /// One launch for several ops, with the same results (sums of squares: as many as the scratch allows).
    /// Their buffers, except scratch, must be live at the same time. Throws InternalError unless
    /// can_bind_together() holds for every pair.
    Call bind_together(std::span<const Binding> bindings);

private:
    struct Products;
    Call bind_product(const Binding& binding);
    Call bind_convolution(const Binding& binding);

    int threads_;
    std::unique_ptr<Products> products_;
};

} // namespace trivium
