#include "passes/collectives/join.hpp"

#include "ir/collectives.hpp"

namespace trivium {

namespace {

/// The axes of both, in the order of the mesh; empty if they overlap, or are not whole axes.
std::string joint_of(const Mesh& mesh, const std::string& a, const std::string& b)
{
    if (mesh.overlap(a, b))
        return "";
    std::string name;
    i64 ranks = 1;
    for (const MeshAxis& axis : mesh.axes)
        if (joins(a, axis.name) || joins(b, axis.name)) {
            name += (name.empty() ? "" : std::string(1, axis_joint)) + axis.name;
            ranks *= axis.size;
        }
    return ranks == mesh.ranks_along(a) * mesh.ranks_along(b) ? name : "";
}

} // namespace

Graph join_reductions(Graph graph)
{
    const std::vector<int> uses = uses_of(graph);
    std::vector<bool> ops(graph.ops.size(), true), values(graph.values.size(), true);
    for (Op& op : graph.ops) {
        if (!reduces_to_all(op) || op.operands.size() != 1 || uses[op.operands[0].index()] != 1)
            continue;
        const ValueId between = op.operands[0];
        const OpId first = graph[between].producer;
        if (!first || !reduces_to_all(graph[first]) || graph[first].operands.size() != 1 ||
            graph[first].region != op.region || graph[first].phase != op.phase ||
            graph[first].block != op.block || graph[first].attrs->combine != op.attrs->combine)
            continue;
        const std::string joint = joint_of(graph.mesh, *graph[first].attrs->axis, *op.attrs->axis);
        if (joint.empty())
            continue;
        op.attrs.edit().axis = joint;
        op.operands = graph[first].operands;
        ops[first.index()] = values[between.index()] = false;
    }
    keep_only(graph, ops, values);
    return graph;
}

} // namespace trivium
