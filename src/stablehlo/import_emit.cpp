// The ops that handlers add to the graph.
#include "ir/limits.hpp"
#include "stablehlo/importer.hpp"

#include <algorithm>

namespace trivium {

std::string on_one_line(const UserError& error)
{
    std::string text = error.what();
    std::ranges::replace(text, '\n', ' ');
    return text;
}

std::vector<ValueId> HloImporter::emit_all(const HloOp& op, K kind, const std::vector<ValueId>& operands,
                                           Attributes attrs)
{
    if (graph_.ops.size() >= max_text_ops)
        refuse(op, str("the program has more than ", max_text_ops, " ops when its loops are written out"),
               "use fewer or smaller loops");
    try {
        const std::vector<ValueId> results = builder_.op(kind, operands, std::move(attrs));
        check_attributes(graph_, graph_.ops.back(), rule_of(graph_, graph_.ops.back()));
        return results;
    } catch (const UserError& error) {
        refuse(op, on_one_line(error));
    }
}

ValueId HloImporter::emit(const HloOp& op, K kind, const std::vector<ValueId>& operands, Attributes attrs)
{
    return emit_all(op, kind, operands, std::move(attrs))[0];
}

ValueId HloImporter::constant(const HloOp& op, DType dtype, const Shape& shape, double value)
{
    return emit(op, K::constant, {}, {.dtype = dtype, .value = value, .lists = {{Attr::shape, shape}}});
}

ValueId HloImporter::constant_like(const HloOp& op, ValueId like, double value)
{
    const TensorType type = graph_[like].type;
    return constant(op, type.dtype, type.shape, value);
}

ValueId HloImporter::cast(const HloOp& op, ValueId x, DType dtype)
{
    return graph_[x].type.dtype == dtype ? x : emit(op, K::cast, {x}, {.dtype = dtype});
}

ValueId HloImporter::reshaped(const HloOp& op, ValueId x, const Shape& shape)
{
    return shape_of(x) == shape ? x : emit(op, K::reshape, {x}, {.lists = {{Attr::shape, shape}}});
}

ValueId HloImporter::transposed(const HloOp& op, ValueId x, const Numbers& dims)
{
    return std::ranges::is_sorted(dims) ? x : emit(op, K::transpose, {x}, {.lists = {{Attr::dims, dims}}});
}

ValueId HloImporter::spread(const HloOp& op, ValueId x, const Numbers& dims, const Shape& shape)
{
    if (shape_of(x) == shape && std::ranges::is_sorted(dims))
        return x;
    // JAX adds dimensions in one step, and repeats in the next: one broadcast does both.
    const Value& value = graph_[x];
    if (value.producer && graph_[value.producer].kind == K::broadcast && value.sharding == Sharding()) {
        const ValueId from = graph_[value.producer].operands[0];
        Numbers all;
        for (const i64 d : *graph_[value.producer].attrs->lists.find(Attr::dims))
            all.push_back(dims.at(static_cast<std::size_t>(d)));
        return spread(op, from, all, shape);
    }
    return emit(op, K::broadcast, {x}, {.lists = {{Attr::dims, dims}, {Attr::shape, shape}}});
}

ValueId HloImporter::compared(const HloOp& op, ValueId a, ValueId b, const char* direction)
{
    return emit(op, K::compare, {a, b}, {.direction = direction});
}

} // namespace trivium
