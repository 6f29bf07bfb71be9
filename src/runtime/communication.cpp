#include "runtime/communication.hpp"

#include "base/check.hpp"
#include "runtime/op_args.hpp"

namespace trivium {

CollectiveKind collective_kind(OpKind kind)
{
    return kind == OpKind::all_gather       ? CollectiveKind::all_gather
           : kind == OpKind::reduce_scatter ? CollectiveKind::reduce_scatter
                                            : CollectiveKind::all_reduce;
}

CollectiveShape collective_shape(const Binding& b)
{
    const Graph& graph = *b.graph;
    const Op& op = *b.op;
    CollectiveShape shape;
    shape.kind = collective_kind(op.kind);
    shape.type = graph[op.operands[0]].type.dtype;
    shape.combine = op.attrs->combine.value_or(Combine::sum);
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
        const Shape &in = graph[op.operands[i]].type.shape, &out = graph[op.results[i]].type.shape;
        Operand operand;
        operand.in = b.operands[i];
        operand.out = b.results[i];
        if (shape.kind == CollectiveKind::all_reduce) {
            operand.extent = element_count(in);
        } else {
            const auto dim = static_cast<std::size_t>(op.attrs->dim->at(i));
            TRV_CHECK(dim < in.size(), "dimension ", dim, " of ", in.size());
            for (std::size_t d = 0; d < in.size(); ++d)
                (d < dim ? operand.outer : operand.inner) *= d == dim ? 1 : in[d];
            operand.extent = shape.kind == CollectiveKind::all_gather ? out[dim] : in[dim];
        }
        shape.operands.push_back(operand);
    }
    return shape;
}

Piece exchange_scratch(const Binding& b) { return {static_cast<std::byte*>(b.scratch.data), b.scratch.size}; }

BoxExchange box_exchange(const Binding& b, Comm& comm)
{
    return {comm, exchange_of(*b.graph, *b.op), b.operands[0], b.results[0], exchange_scratch(b)};
}

RowExchangeShape row_exchange_shape(const Binding& b)
{
    const Args a{b};
    RowExchangeShape shape;
    const i64 own_groups = a.list(Attr::groups)[0];
    shape.blocks = a.dim(0, 0) / own_groups;
    shape.groups = a.dim(1, 0) / std::max<i64>(shape.blocks, 1);
    shape.experts = a.dim(1, 1);
    shape.backwards = a.number_or(Attr::backwards, 0) != 0;
    const i64 in = a.dim(0, 1), out = a.out_shape(0)[1];
    shape.sent = shape.backwards ? out : in;
    shape.received = shape.backwards ? in : out;
    shape.row = a.dim(0, 2) * size_of(a.in_type(0).dtype);
    shape.drops = shape.backwards || a.number_or(Attr::clamp, 1) != 0;
    shape.place = place_of(*b.graph, *b.op);
    return shape;
}

bool is_collective(const Op& op) { return info(op).bucket; }

Message message_of(const Binding& b)
{
    const Op& op = *b.op;
    const bool sends = op.kind == OpKind::send;
    if (!sends && op.kind != OpKind::recv)
        throw InternalError(__FILE__, __LINE__, str("op '", info(op).name, "' does not communicate"));
    const auto number = [](const std::optional<i64>& value) { return static_cast<int>(value.value()); };
    const ValueId value = sends ? op.operands[0] : op.results[0];
    return {sends,
            number(sends ? op.attrs->to : op.attrs->from),
            number(op.attrs->tag),
            {static_cast<std::byte*>(sends ? b.operands[0] : b.results[0]), (*b.graph)[value].type.bytes()}};
}

} // namespace trivium
