#include "model/statistics.hpp"

#include "ir/builder.hpp"
#include "ir/names.hpp"
#include "model/refusal.hpp"

#include <map>

namespace trivium {

namespace {

bool is_statistic(const Op& op) { return op.kind == OpKind::running_statistic; }
bool is_average(const Value& v) { return v.role == Role::parameter && v.update.kind == UpdateKind::average; }

} // namespace

void require_statistics(const Graph& graph)
{
    std::map<ValueId, int> kept; // by how many ops
    for (const Op& op : graph.ops) {
        if (!is_statistic(op))
            continue;
        const Value& state = graph[op.operands[0]];
        if (!is_average(state))
            refuse(graph, op.line, str("keeps a running statistic in %", state.name),
                   "the first operand of running_statistic is a parameter that it updates",
                   "declare it with `update average(decay=0.9)`");
        if (++kept[op.operands[0]] > 1)
            refuse(graph, op.line, str("keeps two running statistics in %", state.name), "",
                   "use a parameter for each");
    }
    for (const ValueId id : graph.with_role(Role::parameter))
        if (is_average(graph[id]) && !kept.contains(id))
            refuse(graph, graph[id].line,
                   str("has the parameter %", graph[id].name, " with an average that nothing updates"),
                   "no op running_statistic has it as its first operand",
                   str("write %now = running_statistic(%", graph[id].name, ", %value), or remove it"));
}

Graph resolve_statistics(Graph graph, bool evaluates, DType master)
{
    Builder b(graph);
    const std::size_t count = graph.ops.size();
    for (std::size_t i = 0; i < count; ++i) {
        const Op op = graph.ops[i];
        if (!is_statistic(op))
            continue;
        const ValueId state = op.operands[0], now = op.operands[1],
                      kept = op.operands.size() > 2 ? op.operands[2] : op.results[0];
        const bool stays = evaluates || graph[state].update.kind == UpdateKind::frozen;
        graph.ops[i].kind = OpKind::reshard;
        graph.ops[i].operands = {stays ? state : now};
        if (stays)
            continue;
        // In the backward phase, so that it is reduced with the gradients.
        b.where = {Region::microbatch, Phase::backward, op.block, op.scope};
        const std::string name = value_name::gradient + graph[state].name;
        const ValueId before = b.value(name + ".before", {master, graph[state].type.shape}, Role::carry);
        const ValueId after = b.add_into(before, b.cast_to(kept, master), false);
        graph[after].name = name;
        graph.carries.push_back({before, after});
    }
    return graph;
}

} // namespace trivium
