#include "passes/sharding/refusals.hpp"

#include "base/check.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/text/text.hpp"

#include <algorithm>

namespace trivium {

std::string lacking_partial(const Graph& graph, ValueId v, const Layout& layout)
{
    for (const Partial& p : graph[v].sharding->partial)
        if (graph.mesh.ranks_along(p.axis) > 1 &&
            std::ranges::find(layout.partial, p) == layout.partial.end())
            return p.axis;
    return "";
}

void require_partial(const Graph& graph, ValueId v, const Layout& layout)
{
    if (const std::string axis = lacking_partial(graph, v, layout); !axis.empty())
        throw UserError(
            {str(source_place(graph, graph[v].line), "%", graph[v].name),
             str("is annotated as partial over '", axis, "'"),
             str(info(graph[graph[v].producer]).name, " does not leave it partial over that axis"),
             str("remove the annotation, or shard over '", axis,
                 "' a dimension of the operands that the op reduces with this combiner")});
}

void refuse_buffers(const Graph& graph, const Op& op, const std::function<const Layout&(ValueId)>& layout_of)
{
    for (const ValueId v : op.results)
        require_partial(graph, v, {});
    for (std::size_t r = 0; r < op.results.size(); ++r)
        if (const ValueId into = aliased_operand(op, r))
            throw UserError(
                {place_of(graph, op),
                 str("cannot be sharded such that %", graph[op.results[r]].name, " stays in the buffer of %",
                     graph[into].name),
                 str("%", graph[into].name, " is sharded as ", to_text(sharding_of(layout_of(into))), ", %",
                     graph[op.results[r]].name, " as ", to_text(graph[op.results[r]].sharding),
                     ", and the op cannot compute the one in the other"),
                 "shard both in the same way, along dimensions that the op can shard"});
    if (info(op).communicates)
        throw UserError(
            {place_of(graph, op), "cannot be sharded over its axis",
             str("each rank along '", *op.attrs->axis, "' has one of as many neighbouring groups"),
             str("shard the first dimension of its rows over all ranks, '", *op.attrs->axis,
                 "' being the last of the axes")});
    throw InternalError(__FILE__, __LINE__, place_of(graph, op) + " has no sharding");
}

} // namespace trivium
