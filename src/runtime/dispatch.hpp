#pragma once
// From an op of the graph to a kernel call: one line per op.
#include "ir/op_table.hpp"
#include "kernels/exec.hpp"

#include <functional>
#include <memory>
#include <span>

namespace trivium {

/// A kernel with its shapes and addresses: what a Step runs.
using Call = std::function<void(const kernels::Exec&)>;

/// An op's place in memory.
struct Binding {
    const Graph* graph = nullptr;
    const Op* op = nullptr;
    std::vector<void*> operands, results; ///< addresses in the arena, by position
    kernels::Scratch scratch;
    bool overwrite = false; ///< of an accumulating op
};

/// Whether one launch can do both ops, of any sizes, where neither reads a result of the other: updates of
/// one step, sums of squares.
bool can_bind_together(const Binding& first, const Binding& next);

/// Makes Calls, and keeps the products that were compiled for them, by shape.
class Dispatch {
public:
    explicit Dispatch(int threads);
    ~Dispatch();

    /// Throws InternalError for an op without kernel, or one whose kernel wants more scratch than it is
    /// given.
    Call bind(const Binding& binding);
    /// One launch for several ops (of sums of squares as many as there is scratch for), with the same
    /// results. Their buffers must be live together, apart from scratch. Throws InternalError unless
    /// can_bind_together() holds for each two of them.
    Call bind_together(std::span<const Binding> bindings);

private:
    struct Products;
    Call bind_product(const Binding& binding);

    int threads_;
    std::unique_ptr<Products> products_;
};

} // namespace trivium
