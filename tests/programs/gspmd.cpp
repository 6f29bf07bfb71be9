#include "gspmd.hpp"

#include "base/check.hpp"
#include "catch.hpp"
#include "ir/builder.hpp"
#include "ir/text/text.hpp"
#include "passes/autodiff.hpp"
#include "passes/collectives/join.hpp"
#include "passes/sharding/lookahead.hpp"
#include "passes/sharding/partition.hpp"
#include "passes/simplify.hpp"
#include "plan/collective_list.hpp"
#include "plan/graph_file.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace trivium::gspmd {

std::string replaced(std::string text, const std::string& from, const std::string& to)
{
    TRV_CHECK(text.find(from) != std::string::npos, "the text has no ", from);
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
    return text;
}

std::string example(const std::string& name, const std::string& mesh)
{
    std::ifstream in(std::string(TRIVIUM_EXAMPLES) + "/" + name + ".graph");
    TRV_CHECK(in.good(), "docs/examples has no ", name);
    std::ostringstream text;
    for (std::string line; std::getline(in, line);)
        text << (line.starts_with("mesh ") ? "mesh " + mesh : line) << "\n";
    return text.str();
}

namespace {

/// The gradients of a single microbatch, without accumulators.
Graph gradients_once(Graph graph)
{
    graph = autodiff(std::move(graph), {.loss = "loss"});
    for (const Carry& carry : graph.carries)
        for (Op& op : graph.ops)
            if (op.accumulate && op.operands.back() == carry.in) {
                op.accumulate = false;
                op.operands.pop_back();
            }
    std::vector<bool> values(graph.values.size(), true);
    for (const Carry& carry : graph.carries)
        values[carry.in.index()] = false;
    graph.carries.clear();
    keep_only(graph, std::vector<bool>(graph.ops.size(), true), values);
    return graph;
}

} // namespace

std::string training_step(const std::string& text)
{
    Graph graph = gradients_once(read_graph(text, "example"));
    Builder b(graph);
    b.where.phase = Phase::backward;
    const auto scaled = [&](ValueId x, double by) {
        return b.op1(OpKind::multiply, {x, b.filled_like(x, by)});
    };
    for (const ValueId p : graph.with_role(Role::parameter)) {
        const std::string name = graph[p].name;
        const ValueId gradient = graph.find("grad." + name);
        TRV_CHECK(gradient, name, " has no gradient");
        const ValueId state = b.value("momentum." + name, graph[p].type, Role::state);
        const ValueId next = b.op1(OpKind::add, {scaled(state, 0.5), gradient}, {}, "new.momentum." + name);
        graph.outputs.push_back(b.op1(OpKind::subtract, {p, scaled(next, 0.125)}, {}, "new." + name));
        graph.outputs.push_back(next);
    }
    return to_text(simplify(std::move(graph)));
}

int annotations(const std::string& text)
{
    const Graph graph = read_graph(text, "example");
    return static_cast<int>(std::count_if(graph.values.begin(), graph.values.end(),
                                          [](const Value& v) { return !v.sharding->dims.empty(); }));
}

Traffic traffic(const std::string& text)
{
    const Graph sharded = sharded_graph(read_graph(text, "example"));
    TRV_CHECK(sharded.carries.empty(), "the example has carries");
    PartitionConfig config{Coordinates(sharded.mesh.axes.size(), 0), pipeline_axis, true};
    const Graph chosen = look_ahead(sharded, config);
    Traffic all;
    const auto ranks = static_cast<double>(sharded.mesh.ranks());
    for (i64 rank = 0; rank < sharded.mesh.ranks(); ++rank) {
        config.at = sharded.mesh.coordinates(rank);
        for (CollectiveEntry& entry : collectives_of(join_reductions(simplify(partition(chosen, config))))) {
            std::sort(entry.axes.begin(), entry.axes.end());
            std::string key = entry.kind;
            for (std::size_t i = 0; i < entry.axes.size(); ++i)
                key += (i ? "," : "(") + entry.axes[i];
            Sent& sent = all[key + ")"];
            sent.count += rank == 0;
            sent.bytes += static_cast<double>(entry.bytes) / ranks;
        }
    }
    return all;
}

double total(const Traffic& traffic)
{
    double sum = 0;
    for (const auto& [kind, sent] : traffic)
        sum += sent.bytes;
    return sum;
}

std::string text_of(const Traffic& traffic)
{
    std::string text;
    for (const auto& [kind, sent] : traffic)
        text += str("  ", kind, " ", sent.count, " times, ", sent.bytes, " bytes\n");
    return text;
}

double activations(const std::string& text)
{
    const Graph local = local_graph(sharded_graph(read_graph(text, "example")), 0);
    std::vector<bool> kept(local.values.size(), false);
    for (const Op& op : local.ops)
        for (const ValueId v : op.operands)
            kept[v.index()] = kept[v.index()] || (op.phase == Phase::backward && local[v].producer &&
                                                  local[local[v].producer].phase == Phase::forward);
    double bytes = 0;
    for (std::size_t v = 0; v < kept.size(); ++v)
        bytes += kept[v] ? static_cast<double>(local.values[v].type.bytes()) : 0;
    return bytes;
}

std::string sharding_of(const std::string& text, const std::string& value)
{
    const Graph sharded = sharded_graph(read_graph(text, "example"));
    const ValueId v = sharded.find(value);
    return v ? to_text(Sharding{sharded[v].sharding->dims, sharded[v].sharding->partial})
             : "no value " + value;
}

} // namespace trivium::gspmd
