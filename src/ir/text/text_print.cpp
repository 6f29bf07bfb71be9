#include "base/check.hpp"
#include "base/words.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/text/attribute_text.hpp"
#include "ir/text/text.hpp"

namespace trivium {

namespace {

std::string print_given(const Value& v)
{
    std::string line = str(name_of(v.role), " %", v.name, " : ", v.type, to_text(v.sharding));
    if (!v.whole.empty() && v.whole != v.type.shape)
        line += str(" of ", TensorType{v.type.dtype, v.whole});
    if (v.space != Space::device)
        line += str(" on ", name_of(v.space));
    if (const std::string init = to_text(v.init); !init.empty())
        line += " init " + init;
    line += v.decay ? " decay" : "";
    line += v.stack > 0 ? str(" stack ", v.stack) : "";
    line += v.rows > 0 ? str(" rows ", v.rows) : "";
    if (const std::string update = to_text(v.update); !update.empty())
        line += " update " + update;
    return line + "\n";
}

} // namespace

std::string to_text(const Sharding& sharding)
{
    if (sharding.dims.empty() && sharding.partial.empty() && sharding.replicated.empty())
        return "";
    std::string text = "<";
    for (std::size_t d = 0; d < sharding.dims.size(); ++d) {
        text += d ? "," : "";
        text += joined_words(sharding.dims[d].axes, "+");
        text += sharding.dims[d].axes.empty() ? "-" : "";
        text += sharding.dims[d].open ? "?" : "";
        if (sharding.dims[d].priority > 0)
            text += str("@", sharding.dims[d].priority);
    }
    const char* separator = "|";
    for (const Partial& p : sharding.partial) {
        text += str(separator, p.axis, ":", name_of(p.combine));
        separator = " ";
    }
    for (const std::string& axis : sharding.replicated) {
        text += str(separator, axis, ":replicated");
        separator = " ";
    }
    return text + ">";
}

std::string to_text(const Graph& graph, OpId id)
{
    const Op& op = graph[id];
    std::string line, types;
    for (std::size_t i = 0; i < op.results.size(); ++i) {
        line += (i ? ", %" : "%") + graph[op.results[i]].name;
        types +=
            (i ? ", " : "") + to_string(graph[op.results[i]].type) + to_text(graph[op.results[i]].sharding);
    }
    line += str(op.results.empty() ? "" : " = ", info(op).name, "(");
    const std::size_t plain = op.operands.size() - (op.accumulate ? 1 : 0);
    for (std::size_t i = 0; i < plain; ++i)
        line += (i ? ", %" : "%") + graph[op.operands[i]].name;
    line += ")";
    if (op.accumulate)
        line += " += %" + graph[op.operands.back()].name;
    if (const std::string attributes = to_text(op.attrs); !attributes.empty())
        line += " " + attributes;
    return op.results.empty() ? line : line + " : " + types;
}

std::string to_text(const Graph& graph)
{
    std::string text = "graph " + graph.name + "\n";
    if (!graph.mesh.axes.empty()) {
        text += "mesh";
        for (const MeshAxis& axis : graph.mesh.axes)
            text += str(" ", axis.name, "=", axis.size);
        text += "\n";
    }
    if (!graph.at.empty()) {
        text += "at";
        for (std::size_t a = 0; a < graph.at.size(); ++a)
            text += str(" ", graph.mesh.axes[a].name, "=", graph.at[a]);
        text += "\n";
    }
    if (!graph.stage_of_block.empty()) {
        text += "stages";
        for (const int stage : graph.stage_of_block)
            text += str(" ", stage);
        text += "\n";
    }
    for (const Value& v : graph.values)
        if (v.role != Role::computed)
            text += print_given(v);
    for (const Region region : {Region::prologue, Region::microbatch, Region::epilogue}) {
        std::string body, context;
        for (std::size_t i = 0; i < graph.ops.size(); ++i) {
            const Op& op = graph.ops[i];
            if (op.region != region)
                continue;
            const std::string at = str("  @ ", name_of(op.phase), " block ", op.block,
                                       op.scope.empty() ? "" : " " + op.scope, "\n");
            if (at != context)
                body += at;
            context = at;
            body += "  " + to_text(graph, OpId(i)) + "\n";
        }
        if (!body.empty())
            text += str(name_of(region), " {\n", body, "}\n");
    }
    for (const Carry& carry : graph.carries)
        text += str("carried %", graph[carry.in].name, " -> %", graph[carry.out].name, "\n");
    for (const ValueId id : graph.outputs)
        text += str("output %", graph[id].name, "\n");
    return text;
}

} // namespace trivium
