#include "passes/optimizer.hpp"

#include "base/check.hpp"
#include "ir/averages.hpp"
#include "ir/builder.hpp"
#include "ir/names.hpp"
#include "passes/memory/zero.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace trivium {

namespace {

/// A config, and the sharding that it asks for.
struct Setup : OptimizerConfig {
    std::optional<FurtherSharding> states; ///< over shard_axis

    Setup(const OptimizerConfig& config, const Graph& graph) : OptimizerConfig(config)
    {
        if (!shard_axis.empty())
            states.emplace(graph, shard_axis);
    }

    /// How the state of a parameter is sharded.
    Sharding sharding_of(const Value& p) const
    {
        return states ? (*states)(p.sharding, p.type.shape) : Sharding{};
    }
};

double decay_of(const Value& parameter, const Setup& config)
{
    return parameter.decay ? config.weight_decay * parameter.factors.decay : 0;
}

/// The products of Newton-Schulz iterations on X[stack, rows, columns], where each may be several dimensions.
/// The Gram matrix is that of the smaller side: A = X X' and then A X, or A = X' X and then X A.
struct Products {
    bool by_rows = true;
    Rule gram, square, step;
    Rule squares, unit; ///< of a stack: each matrix by its own norm
    i64 larger = 0;     ///< side of a matrix

    static Products of(const Value& matrix)
    {
        const auto stacked = static_cast<std::size_t>(matrix.stack),
                   rows = static_cast<std::size_t>(matrix.rows);
        const Shape shape(matrix.type.shape.begin() + matrix.stack, matrix.type.shape.end());
        using Dims = std::vector<std::string>;
        const auto named = [](const char* name, std::size_t count) {
            Dims dims;
            for (std::size_t d = 0; d < count; ++d)
                dims.push_back(str(name, d));
            return dims;
        };
        const Dims stack = named("s", stacked);
        const auto joined = [&](const Dims& a, const Dims& b) {
            Dims all = stack;
            all.insert(all.end(), a.begin(), a.end());
            all.insert(all.end(), b.begin(), b.end());
            return Rule::Tensor{all};
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
        const Rule::Tensor gram = joined(x, y), each{stack};
        return {by_rows,
                product(matrix_of(x), matrix_of(y), gram),
                product(gram, joined(y, z), joined(x, z)),
                by_rows ? product(gram, matrix_of(y), matrix_of(x))
                        : product(matrix_of(x), gram, matrix_of(y)),
                Rule({{matrix_of(x)}, {each}}),
                product(matrix_of(x), each, matrix_of(x)),
                std::max(extent[0], extent[1])};
    }
};

/// Adds Muon's update of a matrix, or of each matrix of a stack.
void update_matrix(Builder& b, ValueId parameter, ValueId gradient, ValueId norm, ValueId hyper,
                   const Setup& config)
{
    Graph& graph = b.graph();
    const std::string name = graph[parameter].name;
    b.where.scope = name;
    const ValueId state = b.states_of(parameter, optimizer_row(config.kind).matrices, {})[0];
    Sharding whole = graph[parameter].sharding; // matrices, over shard_axis
    whole.dims.resize(graph[parameter].type.shape.size());
    whole.origin = "the optimizer";
    for (DimSharding& dim : whole.dims)
        dim.open = false;
    const int stack = graph[parameter].stack;
    if (!config.shard_axis.empty()) { // the parameter too, because no op has it and its state as operands
        const Sharding sharded = config.sharding_of(graph[parameter]);
        std::copy_n(sharded.dims.begin(), stack, whole.dims.begin());
        graph[parameter].sharding = graph[state].sharding = sharded;
    }
    const Products products = Products::of(graph[parameter]);
    const ValueId direction = b.momentum_of(state, gradient, norm, config.momentum);
    // The squares of the shards, so that one reduction precedes the gathers of all matrices.
    const ValueId squares =
        stack > 0 ? b.squares_of_each(direction, products.squares) : b.squares_of(direction);
    const auto kept = [&](ValueId x) {
        graph[x].sharding = whole;
        return x;
    };
    ValueId x = kept(b.normalised(b.reshard_to(direction, whole, name + ".direction"), squares,
                                  stack > 0 ? std::optional(products.unit) : std::nullopt));
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

void optimize(Builder& b, const Updated& updated, ValueId norm, ValueId hyper, const Setup& config)
{
    const Graph& graph = b.graph();
    const auto& [parameter, gradient] = updated;
    if (config.kind == OptimizerKind::muon && graph[parameter].rows > 0)
        return update_matrix(b, parameter, gradient, norm, hyper, config);
    const std::vector<ValueId> states =
        b.states_of(parameter, optimizer_row(config.kind).others, config.sharding_of(graph[parameter]));
    b.update(parameter, states, {gradient, norm, hyper}, decay_of(graph[parameter], config));
}

void average_weights(Builder& b, ValueId parameter, const Setup& config)
{
    Graph& graph = b.graph();
    const auto carry = std::ranges::find(graph.carries, parameter, &Carry::in);
    TRV_CHECK(carry != graph.carries.end(), "%", graph[parameter].name, " is not updated");
    const ValueId next = carry->out;
    b.average_weights(parameter, next, config.sharding_of(graph[parameter]), config.average);
}

void average(Builder& b, const Updated& updated, ValueId norm, const Setup& config)
{
    Graph& graph = b.graph();
    ValueId count = graph.find(value_name::microbatches);
    if (!count)
        count = b.value(value_name::microbatches, {DType::f64, {}}, Role::hyper);
    if (!config.shard_axis.empty())
        graph[updated.parameter].sharding = config.sharding_of(graph[updated.parameter]);
    b.average(updated.parameter, updated.sum, norm, count, graph[updated.parameter].update.number);
}

} // namespace

Graph keep_matrices_whole(Graph graph, const OptimizerConfig& config)
{
    if (config.kind != OptimizerKind::muon || config.shard_axis.empty())
        return graph;
    const FurtherSharding further(graph, config.shard_axis);
    for (const ValueId id : graph.with_role(Role::parameter)) {
        Value& p = graph[id];
        if (p.stack == 0)
            continue;
        Sharding by_matrix = p.sharding;
        by_matrix.dims.resize(p.type.shape.size());
        for (std::size_t d = static_cast<std::size_t>(p.stack); d < by_matrix.dims.size(); ++d)
            by_matrix.dims[d].open = false;
        const auto parts = [&](const Sharding& sharding) {
            i64 all = 1;
            for (const DimSharding& dim : sharding.dims)
                all *= graph.mesh.parts_along(dim.axes);
            return all;
        };
        if (parts(further(by_matrix, p.type.shape)) > parts(by_matrix))
            p.sharding = std::move(by_matrix);
    }
    return graph;
}

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

Graph add_optimizer(Graph graph, const OptimizerConfig& given)
{
    const Setup config(given, graph);
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
            graph[p].sharding = config.sharding_of(graph[p]);

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
