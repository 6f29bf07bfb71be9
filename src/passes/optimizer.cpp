#include "passes/optimizer.hpp"

#include "base/check.hpp"
#include "ir/builder.hpp"
#include "ir/names.hpp"
#include "passes/zero.hpp"

namespace trivium {

Graph stack_outputs(Graph graph)
{
    Builder b(graph);
    b.where = {Region::epilogue, Phase::update, 0, ""};
    graph.outputs = {b.stack_of(graph.outputs, value_name::totals)};
    return graph;
}

Graph add_optimizer(Graph graph, const OptimizerConfig& config)
{
    TRV_CHECK(graph.outputs.size() == 2, "the graph's outputs are not loss and token count");
    Builder b(graph);
    b.where = {Region::epilogue, Phase::update, 0, ""};
    std::vector<std::pair<ValueId, ValueId>> trained; // parameter, gradient
    for (const ValueId p : graph.with_role(Role::parameter))
        if (const ValueId gradient = graph.find(value_name::gradient + graph[p].name)) {
            b.where.block = graph[graph[gradient].producer].block;
            const std::string name = value_name::reduced_gradient + graph[p].name;
            const ValueId sent = config.reduce_bf16 ? b.cast_to(gradient, DType::bf16) : gradient;
            trained.emplace_back(p, b.reshard_to(sent, {}, name));
        }
    TRV_CHECK(!trained.empty(), "the graph has no gradients");

    for (const auto& [parameter, gradient] : trained)
        graph.outputs.push_back(b.squares_of(gradient));
    b.where.block = 0;
    const ValueId totals = b.stack_of(graph.outputs, value_name::totals);
    const ValueId norm = b.norm_of(totals, config.grad_clip);
    graph.outputs = {totals, norm};

    const ValueId hyper = b.value(value_name::hyper, {DType::f64, {hyper_count}}, Role::hyper);
    for (const auto& [parameter, gradient] : trained) {
        const std::string name = graph[parameter].name;
        b.where.block = graph[graph[gradient].producer].block;
        std::vector<ValueId> states{parameter};
        for (const char* moment : value_name::moments) {
            const ValueId state = b.value(moment + name, graph[parameter].type, Role::state, FillInit{0.0});
            if (!config.shard_axis.empty())
                graph[state].sharding = shard_further(graph[parameter].sharding, graph[parameter].type.shape,
                                                      graph.mesh, config.shard_axis);
            states.push_back(state);
        }
        b.update(states, gradient, norm, hyper, graph[parameter].decay ? config.weight_decay : 0.0);
    }
    return graph;
}

} // namespace trivium
