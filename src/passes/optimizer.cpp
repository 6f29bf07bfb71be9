#include "passes/optimizer.hpp"

#include "base/check.hpp"
#include "ir/averages.hpp"
#include "ir/builder.hpp"
#include "ir/names.hpp"
#include "passes/memory/zero.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace trivium {

namespace {

/// How the state of a parameter is sharded.
Sharding state_sharding(const Graph& graph, ValueId parameter, const OptimizerConfig& config)
{
    const Value& p = graph[parameter];
    return config.shard_axis.empty() ? Sharding{}
                                     : shard_further(p.sharding, p.type.shape, graph.mesh, config.shard_axis);
}

double decay_of(const Value& parameter, const OptimizerConfig& config)
{
    return parameter.decay ? config.weight_decay * parameter.factors.decay : 0;
}

/// The products of Newton-Schulz iterations on X[rows, columns], where each may be several dimensions. The
/// Gram matrix is that of the smaller side: A = X X' and then A X, or A = X' X and then X A.
struct Products {
    bool by_rows = true;
    Rule gram, square, step;
    i64 larger = 0; ///< side of X

    static Products of(const Value& matrix)
    {
        const Shape& shape = matrix.type.shape;
        const auto rows = static_cast<std::size_t>(matrix.rows);
        using Dims = std::vector<std::string>;
        const auto named = [](const char* name, std::size_t count) {
            Dims dims;
            for (std::size_t d = 0; d < count; ++d)
                dims.push_back(str(name, d));
            return dims;
        };
        const auto joined = [](Dims a, const Dims& b) {
            a.insert(a.end(), b.begin(), b.end());
            return Rule::Tensor{a};
        };
        const auto product = [](const Rule::Tensor& a, const Rule::Tensor& b, const Rule::Tensor& c) {
            return Rule({{a, b}, {c}});
        };
        i64 extent[2] = {1, 1};
        for (std::size_t d = 0; d < shape.size(); ++d)
            extent[d < rows ? 0 : 1] *= shape[d];
        const bool by_rows = extent[0] <= extent[1];
        const std::size_t small = by_rows ? rows : shape.size() - rows;
        const Dims x = named("x", small), y = named("y", small), z = named("z", small),
                   far = named("k", shape.size() - small);
        const auto matrix_of = [&](const Dims& near) {
            return by_rows ? joined(near, far) : joined(far, near);
        };
        const Rule::Tensor gram = joined(x, y);
        return {by_rows, product(matrix_of(x), matrix_of(y), gram), product(gram, joined(y, z), joined(x, z)),
                by_rows ? product(gram, matrix_of(y), matrix_of(x))
                        : product(matrix_of(x), gram, matrix_of(y)),
                std::max(extent[0], extent[1])};
    }
};

/// Adds Muon's update of one matrix.
void update_matrix(Builder& b, ValueId parameter, ValueId gradient, ValueId norm, ValueId hyper,
                   const OptimizerConfig& config)
{
    Graph& graph = b.graph();
    const std::string name = graph[parameter].name;
    b.where.scope = name;
    const ValueId state = b.states_of(parameter, optimizer_row(config.kind).matrices, {})[0];
    Sharding whole = graph[parameter].sharding; // over shard_axis
    whole.dims.resize(graph[parameter].type.shape.size());
    whole.origin = "the optimizer";
    for (DimSharding& dim : whole.dims)
        dim.open = false;
    if (!config.shard_axis.empty()) // the parameter too, because no op has it and its state as operands
        graph[parameter].sharding = graph[state].sharding = state_sharding(graph, parameter, config);
    const ValueId direction = b.momentum_of(state, gradient, norm, config.momentum);
    // The squares of the shards, so that one reduction precedes the gathers of all matrices.
    const ValueId squares = b.squares_of(direction);
    const auto kept = [&](ValueId x) {
        graph[x].sharding = whole;
        return x;
    };
    ValueId x = kept(b.normalised(b.reshard_to(direction, whole, name + ".direction"), squares));
    const Products products = Products::of(graph[parameter]);
    constexpr int iterations = 5;
    constexpr double ca = 3.4445, cb = -4.7750, cc = 2.0315; // K. Jordan et al. 2024
    for (int i = 0; i < iterations; ++i) {
        const ValueId gram = b.product_of(x, x, products.gram);
        const ValueId sum = b.weighted(cb, gram, cc, b.product_of(gram, gram, products.square));
        const ValueId moved =
            products.by_rows ? b.product_of(sum, x, products.step) : b.product_of(x, sum, products.step);
        x = kept(b.weighted(ca, x, 1, moved));
    }
    const double rate = graph[parameter].factors.rate;
    b.descend(parameter, x, hyper, rate * decay_of(graph[parameter], config),
              0.2 * rate * std::sqrt(static_cast<double>(products.larger)));
    b.where.scope = "";
}

/// A parameter, and what its update reads: `grad.P`, reduced over ranks.
struct Updated {
    ValueId parameter, sum;
};

void optimize(Builder& b, const Updated& updated, ValueId norm, ValueId hyper, const OptimizerConfig& config)
{
    const Graph& graph = b.graph();
    const auto& [parameter, gradient] = updated;
    if (config.kind == OptimizerKind::muon && graph[parameter].rows > 0)
        return update_matrix(b, parameter, gradient, norm, hyper, config);
    const std::vector<ValueId> states =
        b.states_of(parameter, optimizer_row(config.kind).others, state_sharding(graph, parameter, config));
    b.update(parameter, states, {gradient, norm, hyper}, decay_of(graph[parameter], config));
}

void average_weights(Builder& b, ValueId parameter, const OptimizerConfig& config)
{
    Graph& graph = b.graph();
    const auto carry = std::ranges::find(graph.carries, parameter, &Carry::in);
    TRV_CHECK(carry != graph.carries.end(), "%", graph[parameter].name, " is not updated");
    const ValueId next = carry->out;
    b.average_weights(parameter, next, state_sharding(graph, parameter, config), config.average);
}

void average(Builder& b, const Updated& updated, ValueId norm, const OptimizerConfig& config)
{
    Graph& graph = b.graph();
    ValueId count = graph.find(value_name::microbatches);
    if (!count)
        count = b.value(value_name::microbatches, {DType::f64, {}}, Role::hyper);
    if (!config.shard_axis.empty())
        graph[updated.parameter].sharding = state_sharding(graph, updated.parameter, config);
    b.average(updated.parameter, updated.sum, norm, count, graph[updated.parameter].update.number);
}

} // namespace

Graph with_averages(Graph evaluation, const Graph& train, const std::string& name)
{
    evaluation.name = name;
    std::map<std::string, ValueId> averages; // by parameter
    for (const ValueId state : train.with_role(Role::state))
        if (is_average(train[state]))
            averages[train[state].state_of.parameter] = state;
    for (const ValueId parameter : evaluation.with_role(Role::parameter)) {
        const auto average = averages.find(evaluation[parameter].name);
        if (average == averages.end())
            continue;
        const Value& state = train[average->second];
        TRV_CHECK(evaluation[parameter].type == state.type, "%", state.name,
                  " has another type than its parameter");
        evaluation[parameter].name = state.name;
        evaluation[parameter].sharding = state.sharding;
    }
    return evaluation;
}

Graph stack_outputs(Graph graph)
{
    Builder b(graph);
    b.where = {Region::epilogue, Phase::update, 0, ""};
    const auto first = std::ranges::stable_partition(
        graph.outputs, [&](ValueId v) { return graph[v].type.shape.empty(); }); // the others
    const std::vector<ValueId> scalars(graph.outputs.begin(), first.begin()),
        others(first.begin(), first.end());
    graph.outputs = {b.stack_of(scalars, value_name::totals)};
    graph.outputs.insert(graph.outputs.end(), others.begin(), others.end());
    return graph;
}

Graph add_optimizer(Graph graph, const OptimizerConfig& config)
{
    TRV_CHECK(graph.outputs.size() >= 2, "the graph's outputs are not loss and token count");
    const std::vector<ValueId> others(graph.outputs.begin() + 2, graph.outputs.end());
    graph.outputs.resize(2);
    Builder b(graph);
    b.where = {Region::epilogue, Phase::update, 0, ""};
    std::vector<Updated> all;
    std::vector<ValueId> gradients;
    for (const ValueId p : graph.with_role(Role::parameter))
        if (const ValueId sum = graph.find(value_name::gradient + graph[p].name)) {
            b.where.block = graph[graph[sum].producer].block;
            const std::string name = value_name::reduced_gradient + graph[p].name;
            const bool narrows =
                is_trained(graph[p]) && std::ranges::any_of(config.bf16_axes, [&](const std::string& axis) {
                    return is_shared(graph[p].sharding, graph.mesh, axis);
                });
            const ValueId sent = narrows ? b.cast_to_send(sum, DType::bf16) : sum;
            all.push_back({p, b.reshard_to(sent, {}, name)});
            if (is_trained(graph[p]))
                gradients.push_back(all.back().sum);
        }
    TRV_CHECK(!gradients.empty(), "the graph has no gradients");
    for (const ValueId p : graph.with_role(Role::parameter))
        if (config.shard_frozen && graph[p].update.kind == UpdateKind::frozen)
            graph[p].sharding = state_sharding(graph, p, config);

    for (const ValueId gradient : gradients)
        graph.outputs.push_back(b.squares_of(gradient));
    graph.outputs.insert(graph.outputs.end(), others.begin(), others.end());
    b.where.block = 0;
    const ValueId totals = b.stack_of(graph.outputs, value_name::totals);
    const ValueId norm = b.norm_of(totals, config.grad_clip, std::ssize(gradients));
    graph.outputs = {totals, norm};

    const ValueId hyper = b.value(value_name::hyper, {DType::f64, {hyper_count}}, Role::hyper);
    for (const Updated& updated : all) {
        b.where.block = graph[graph[updated.sum].producer].block;
        switch (graph[updated.parameter].update.kind) {
        case UpdateKind::optimizer:
            optimize(b, updated, norm, hyper, config);
            if (config.average > 0)
                average_weights(b, updated.parameter, config);
            break;
        case UpdateKind::average: average(b, updated, norm, config); break;
        case UpdateKind::balance:
            b.balance(updated.parameter, updated.sum, norm, graph[updated.parameter].update.number);
            break;
        case UpdateKind::frozen: break;
        }
    }
    return graph;
}

} // namespace trivium
