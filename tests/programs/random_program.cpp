#include "random_program.hpp"

#include "base/check.hpp"
#include "ir/general/manual.hpp"
#include "ir/text/text.hpp"
#include "passes/autodiff.hpp"
#include "random_steps.hpp"

#include <numeric>

namespace trivium {

namespace {

using Numbers = std::vector<i64>;

/// Annotates some of the values that have no sharding.
void annotate(Draw& draw, Graph& graph, const AxisPieces& pieces, std::size_t from, i64 one_in)
{
    const std::vector<std::vector<std::string>> regions = manual_axes(graph);
    for (std::size_t i = from; i < graph.values.size(); ++i) {
        Value& v = graph.values[i];
        const bool adds = v.producer && graph[v.producer].accumulate; // kept like its accumulator
        if (below(draw, one_in) == 0 && v.sharding->dims.empty() && !v.type.shape.empty() && !adds &&
            (regions.empty() || regions[i].empty()))
            v.sharding = drawn_sharding(draw, v.type, graph.mesh, pieces, {.partial = v.role == Role::input});
    }
}

/// What nothing reads is an output; the loss is a sum over all that is f64.
void add_results(Graph& graph, bool with_loss)
{
    Builder build(graph);
    std::vector<bool> read(graph.values.size(), false);
    for (const Op& op : graph.ops)
        for (const ValueId v : op.operands)
            read[v.index()] = true;
    ValueId loss;
    double weight = 1; // another one for each value, so that terms do not cancel exactly
    const auto add = [&](ValueId v) {
        const Shape shape = graph[v].type.shape;
        Numbers dims(shape.size());
        std::iota(dims.begin(), dims.end(), 0);
        const ValueId scale = build.op1(
            OpKind::constant, {}, {.dtype = DType::f64, .value = weight, .lists = {{Attr::shape, shape}}});
        const ValueId term = build.op1(OpKind::sin, {build.op1(OpKind::multiply, {v, scale})});
        const ValueId sum =
            build.op1(OpKind::reduce, {term}, {.combine = Combine::sum, .lists = {{Attr::dims, dims}}});
        loss = loss ? build.sum_of(loss, sum) : sum;
        weight += 0.37;
    };
    const std::vector<std::vector<std::string>> regions = manual_axes(graph);
    const std::size_t values = graph.values.size();
    for (std::size_t i = 0; i < values; ++i)
        if (const ValueId v(i); !read[i] && graph[v].producer && (regions.empty() || regions[i].empty())) {
            graph.outputs.push_back(v);
            if (with_loss && graph[v].type.dtype == DType::f64)
                add(v);
        }
    if (!with_loss)
        return;
    if (!loss)
        add(graph.with_role(Role::parameter)[0]);
    graph[loss].name = "loss";
    graph.outputs.push_back(loss);
}

} // namespace

Graph random_program(std::uint64_t seed, const RandomConfig& config)
{
    Draw draw(seed);
    Graph graph;
    graph.name = "random";
    graph.mesh = config.mesh;
    const i64 ops = config.least_ops + below(draw, config.most_ops - config.least_ops + 1);
    RandomSteps steps(draw, graph, config);
    while (static_cast<i64>(graph.ops.size()) < ops)
        steps.step();
    add_results(graph, config.loss);
    const AxisPieces pieces = drawn_pieces(draw, config.mesh, below(draw, 2) == 0);
    annotate(draw, graph, pieces, 0, config.annotated);
    if (!config.backward || !config.loss)
        return graph;
    const std::size_t forward = graph.values.size();
    graph = autodiff(std::move(graph), {.loss = "loss"});
    for (const ValueId p : graph.with_role(Role::parameter))
        if (const ValueId g = graph.find("grad." + graph[p].name))
            graph.outputs.push_back(g);
    annotate(draw, graph, pieces, forward, 5 * i64{config.annotated});
    return graph;
}

RandomConfig random_config(std::uint64_t seed)
{
    static const std::vector<Mesh> meshes{
        {{{"x", 2}}},           {{{"x", 2}, {"y", 2}}}, {{{"x", 3}, {"y", 2}}},
        {{{"x", 4}}},           {{{"x", 2}, {"y", 4}}}, {{{"x", 6}}},
        {{{"x", 1}, {"y", 5}}}, {{{"x", 8}}},           {{{"x", 2}, {"y", 2}, {"z", 2}}}};
    RandomConfig config;
    config.mesh = meshes[seed % meshes.size()];
    config.backward = seed / meshes.size() % 4 != 0;
    config.regions = !config.backward;
    return config;
}

} // namespace trivium
