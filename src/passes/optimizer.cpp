#include "passes/optimizer.hpp"

#include "base/check.hpp"
#include "ir/builder.hpp"

namespace trivium {

Graph add_optimizer(Graph graph, const OptimizerConfig& config)
{
    Builder b(graph);
    b.where = {Region::epilogue, Phase::update, 0, ""};
    std::vector<std::pair<ValueId, ValueId>> trained; // parameter, gradient
    for (const ValueId p : graph.with_role(Role::parameter))
        if (const ValueId gradient = graph.find("grad." + graph[p].name))
            trained.emplace_back(p, gradient);
    const ValueId tokens = graph.find("token_count");
    TRV_CHECK(tokens && !trained.empty(), "the graph has no token count or no gradients");

    std::vector<ValueId> squares;
    for (const auto& [parameter, gradient] : trained)
        squares.push_back(b.squares_of(gradient));
    const ValueId norm = b.norm_of(tokens, squares, config.grad_clip);
    graph.outputs.push_back(norm);

    const ValueId hyper = b.value("hyper", {DType::f64, {hyper_count}}, Role::hyper);
    for (const auto& [parameter, gradient] : trained) {
        const std::string name = graph[parameter].name;
        std::vector<ValueId> states{parameter};
        for (const char* moment : {"adam_m.", "adam_v."})
            states.push_back(b.value(moment + name, graph[parameter].type, Role::state, {"fill", {{"value", 0.0}}}));
        b.update(states, gradient, norm, hyper, graph[parameter].decay ? config.weight_decay : 0.0);
    }
    return graph;
}

} // namespace trivium
