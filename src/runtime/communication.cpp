#include "runtime/communication.hpp"

#include "base/check.hpp"

#include <sstream>

namespace trivium {

namespace {

CollectiveKind kind_of(OpKind kind)
{
    return kind == OpKind::all_gather       ? CollectiveKind::all_gather
           : kind == OpKind::reduce_scatter ? CollectiveKind::reduce_scatter
                                            : CollectiveKind::all_reduce;
}

} // namespace

CollectiveShape collective_shape(const Binding& b)
{
    const Graph& graph = *b.graph;
    const Op& op = *b.op;
    CollectiveShape shape;
    shape.kind = kind_of(op.kind);
    shape.type = graph[op.operands[0]].type.dtype;
    shape.combine = has_attr(op.attrs, "combine") && text_attr(op.attrs, "combine") == "lse" ? Combine::lse
                                                                                             : Combine::sum;
    std::istringstream dims(has_attr(op.attrs, "dim") ? text_attr(op.attrs, "dim") : "");
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
        const Shape &in = graph[op.operands[i]].type.shape, &out = graph[op.results[i]].type.shape;
        Operand operand;
        operand.in = b.operands[i];
        operand.out = b.results[i];
        if (shape.kind == CollectiveKind::all_reduce) {
            operand.extent = element_count(in);
        } else {
            std::size_t dim = 0;
            TRV_CHECK(dims >> dim && dim < in.size(), "a collective without its dimension");
            for (std::size_t d = 0; d < in.size(); ++d)
                (d < dim ? operand.outer : operand.inner) *= d == dim ? 1 : in[d];
            operand.extent = shape.kind == CollectiveKind::all_gather ? out[dim] : in[dim];
        }
        shape.operands.push_back(operand);
    }
    return shape;
}

Piece exchange_scratch(const Binding& b) { return {static_cast<std::byte*>(b.scratch.data), b.scratch.size}; }

bool is_collective(const Op& op)
{
    return op.kind == OpKind::all_gather || op.kind == OpKind::reduce_scatter ||
           op.kind == OpKind::all_reduce;
}

Message message_of(const Binding& b)
{
    const Op& op = *b.op;
    const auto number = [&](const char* name) { return static_cast<int>(int_attr(op.attrs, name)); };
    if (op.kind == OpKind::send)
        return {true,
                number("to"),
                number("channel"),
                {static_cast<std::byte*>(b.operands[0]), (*b.graph)[op.operands[0]].type.bytes()}};
    if (op.kind == OpKind::recv)
        return {false,
                number("from"),
                number("channel"),
                {static_cast<std::byte*>(b.results[0]), (*b.graph)[op.results[0]].type.bytes()}};
    throw InternalError(__FILE__, __LINE__, str("op '", info(op).name, "' does not communicate"));
}

} // namespace trivium
