#include "ir/builder.hpp"

#include "base/check.hpp"
#include "ir/names.hpp"

#include <algorithm>
#include <numeric>

namespace trivium {

std::string Builder::unique(const std::string& hint)
{
    const auto count_use = [&](const std::string& name) {
        const auto [at, added] = used_.try_emplace(name, 0);
        return added ? 0 : ++at->second;
    };
    for (; seen_ < graph_.values.size(); ++seen_) // values that were added elsewhere
        count_use(graph_.values[seen_].name);
    std::string name = hint;
    for (int n = count_use(hint); n > 0; n = count_use(name)) {
        name = str(hint, ".", n + 1);
    }
    ++seen_;
    return name;
}

ValueId Builder::value(const std::string& name, TensorType type, Role role, Init init)
{
    TRV_EXPECT(!graph_.find(name), "two values are called '", name, "'");
    Value v;
    v.name = unique(name);
    v.type = std::move(type);
    v.role = role;
    v.init = std::move(init);
    v.lifetime = lifetime_of(role);
    graph_.values.push_back(std::move(v));
    return ValueId(graph_.values.size() - 1);
}

std::vector<ValueId> Builder::op(OpKind kind, std::vector<ValueId> operands, Attributes attrs,
                                 const std::vector<std::string>& names)
{
    Op made;
    made.kind = kind;
    made.operands = std::move(operands);
    made.attrs = std::move(attrs);
    made.region = where.region;
    made.phase = where.phase;
    made.block = where.block;
    made.scope = where.scope;
    made.stays_partial = where.stays_partial;
    const std::vector<TensorType> types = infer(graph_, made);
    const std::string prefix = where.scope.empty() ? "" : where.scope + ".";
    for (std::size_t i = 0; i < types.size(); ++i) {
        Value v;
        v.name = unique(i < names.size() && !names[i].empty() ? names[i] : prefix + info(kind).name);
        v.type = types[i];
        v.lifetime = result_lifetime(graph_, made, i);
        v.space = result_space(graph_, made);
        v.producer = OpId(graph_.ops.size());
        graph_.values.push_back(std::move(v));
        made.results.emplace_back(graph_.values.size() - 1);
    }
    graph_.ops.push_back(made);
    return graph_.ops.back().results;
}

ValueId Builder::op1(OpKind kind, std::vector<ValueId> operands, Attributes attrs, const std::string& name)
{
    const std::vector<ValueId> results = op(kind, std::move(operands), std::move(attrs), {name});
    TRV_CHECK(results.size() == 1, info(kind).name, " has ", results.size(), " results");
    return results[0];
}

ValueId Builder::sum_of(ValueId a, ValueId b) { return op1(OpKind::add, {a, b}); }

ValueId Builder::cast_to(ValueId x, DType dtype, const std::string& name)
{
    if (graph_[x].type.dtype == dtype && name.empty())
        return x;
    // Back from a wider type: the value that was cast to it.
    if (const OpId producer = graph_[x].producer; producer && name.empty()) {
        const Op& made = graph_[producer];
        if (made.kind == OpKind::cast && graph_[made.operands[0]].type.dtype == dtype &&
            graph_[x].type.dtype == accumulator_of(dtype))
            return made.operands[0];
    }
    return op1(OpKind::cast, {x}, {.dtype = dtype}, name);
}

ValueId Builder::cast_to_send(ValueId x, DType dtype)
{
    const std::size_t before = graph_.ops.size();
    const ValueId made = cast_to(x, dtype);
    if (graph_.ops.size() > before)
        graph_.ops.back().stays_partial = true;
    return made;
}

ValueId Builder::filled_like(ValueId x, double value) { return op1(OpKind::fill, {x}, {.value = value}); }

ValueId Builder::scaled_by(ValueId x, double factor)
{
    return op1(OpKind::multiply, {x, filled_like(x, factor)});
}

ValueId Builder::squares_of(ValueId x)
{
    return op1(OpKind::sum_squares, {x}, {}, graph_[x].name + ".squares");
}

ValueId Builder::squares_of_change(ValueId x, ValueId before)
{
    return op1(OpKind::sum_squares, {x, before}, {}, graph_[x].name + ".change");
}

namespace {

/// Makes `op` add into `into`, in the accumulator type or, where its row allows, in that of its operands.
/// Returns whether it can.
bool accumulates_into(const Graph& graph, Op& op, ValueId into)
{
    const DType type = graph[into].type.dtype, own = graph[op.operands[0]].type.dtype;
    op.operands.push_back(into);
    op.accumulate = true;
    if (infer(graph, op)[0].dtype == type)
        return true;
    if (!info(op).may_have.has(Attr::dtype) || own != type)
        return false;
    op.attrs.edit().dtype = type;
    return infer(graph, op)[0].dtype == type;
}

} // namespace

ValueId Builder::add_into(ValueId into, ValueId x, bool only_reader)
{
    const OpId producer = graph_[x].producer;
    // One that runs on partial sums is added by an op of its own, whose sums may wait.
    const bool waits = producer && graph_[producer].stays_partial && info(graph_[producer]).separable;
    if (only_reader && waits)
        widen(x);
    if (only_reader && !waits && producer && producer.index() + 1 == graph_.ops.size() &&
        info(graph_[producer]).accumulates && !graph_[producer].accumulate &&
        graph_[producer].results.size() == 1) {
        Op op = graph_[producer];
        if (accumulates_into(graph_, op, into)) {
            graph_.ops[producer.index()] = std::move(op);
            graph_[x].type = graph_[into].type;
            graph_[x].lifetime = result_lifetime(graph_, graph_[producer], 0);
            return x;
        }
    }
    Attributes attributes;
    if (graph_[into].type.dtype != accumulator_of(graph_[x].type.dtype))
        attributes.dtype = graph_[into].type.dtype;
    return add_into(into, op1(OpKind::accumulate, {x}, attributes));
}

void Builder::widen(ValueId x)
{
    const OpId producer = graph_[x].producer;
    const DType wide = accumulator_of(graph_[x].type.dtype);
    if (!producer || producer.index() + 1 != graph_.ops.size() || !info(graph_[producer]).accumulates ||
        graph_[producer].accumulate || graph_[x].type.dtype == wide)
        return;
    graph_.ops[producer.index()].attrs.edit().dtype = wide;
    graph_[x].type = infer(graph_, graph_[producer])[0];
}

ValueId Builder::reshard_to(ValueId x, Sharding sharding, const std::string& name)
{
    const ValueId y = op1(OpKind::reshard, {x}, {}, name);
    graph_[y].sharding = std::move(sharding);
    return y;
}

ValueId Builder::copy_to(ValueId x, Space space)
{
    return op1(OpKind::transfer, {x}, {.space = space}, str(graph_[x].name, ".", name_of(space)));
}

ValueId Builder::stack_of(const std::vector<ValueId>& scalars, const std::string& name)
{
    std::vector<i64> places(scalars.size());
    std::iota(places.begin(), places.end(), i64{0});
    const auto count = static_cast<i64>(scalars.size());
    return op1(OpKind::stack, scalars, {.sizes = {{"n", count}}, .at = std::move(places)}, name);
}

ValueId Builder::norm_of(ValueId totals, double clip, i64 count)
{
    Attributes attributes{.clip = clip, .sizes = {{"w", 2}}};
    if (count + 2 != graph_[totals].type.elements())
        attributes.lists.set(Attr::count, {count});
    return op1(OpKind::global_norm, {totals}, attributes, value_name::norm);
}

namespace {

constexpr std::size_t no_dim = ~std::size_t{0};

/// x0, x1, x2 for a tensor of three dimensions; dimension `changed` is called `y`.
Rule::Tensor tensor_of(std::size_t dims, std::size_t changed = no_dim, const std::string& x = "x",
                       const std::string& y = "y")
{
    Rule::Tensor tensor;
    for (std::size_t d = 0; d < dims; ++d)
        tensor.dims.push_back(d == changed ? y : str(x, d));
    return tensor;
}

} // namespace

ValueId Builder::total(ValueId x, const std::string& name, const Sharding& sharding)
{
    const ValueId in = value(name + ".before", graph_[x].type, Role::carry), out = add_into(in, x);
    graph_[in].sharding = graph_[out].sharding = sharding;
    graph_.carries.push_back({in, out});
    return out;
}

ValueId Builder::output_sum(OpKind kind, ValueId x, const std::string& name)
{
    return graph_.outputs.emplace_back(total(op1(kind, {x}, {}, name), name));
}

ValueId Builder::overwrite(ValueId into, ValueId x)
{
    const ValueId next = op1(OpKind::copy_into, {into, x}, {}, graph_[into].name + "'");
    graph_.carries.push_back({into, next});
    return next;
}

ValueId Builder::receive(const std::string& axis, i64 from, i64 tag, TensorType type, const std::string& name)
{
    Attributes attrs{.axis = axis, .from = from, .tag = tag, .dtype = type.dtype};
    attrs.rule = Rule({{}, {tensor_of(type.shape.size())}});
    for (std::size_t d = 0; d < type.shape.size(); ++d)
        attrs.sizes.push_back({str("x", d), type.shape[d]});
    return op1(OpKind::recv, {}, std::move(attrs), name);
}

void Builder::send(const std::string& axis, i64 to, i64 tag, ValueId x, std::optional<i64> reader)
{
    op(OpKind::send, {x},
       {.axis = axis,
        .to = to,
        .tag = tag,
        .reader = reader,
        .rule = Rule({{tensor_of(graph_[x].type.shape.size())}, {}})});
}

ValueId Builder::collective(OpKind kind, ValueId x, std::size_t dim, i64 extent, Attributes attrs,
                            const char* suffix)
{
    const std::size_t dims = graph_[x].type.shape.size();
    attrs.rule = Rule({{tensor_of(dims)}, {tensor_of(dims, dim)}});
    if (dim != no_dim) {
        attrs.dim = {static_cast<i64>(dim)};
        attrs.sizes.push_back({"y", extent});
    }
    return op1(kind, {x}, std::move(attrs), graph_[x].name + suffix);
}

ValueId Builder::all_gather(ValueId x, const std::string& axis, std::size_t dim, i64 extent)
{
    return collective(OpKind::all_gather, x, dim, extent, {.axis = axis}, ".gathered");
}

ValueId Builder::reduce_scatter(ValueId x, const std::string& axis, std::size_t dim, i64 extent,
                                Combine combine)
{
    Attributes attrs{.axis = axis};
    if (combine != Combine::sum)
        attrs.combine = combine;
    return collective(OpKind::reduce_scatter, x, dim, extent, std::move(attrs), ".scattered");
}

ValueId Builder::all_reduce(ValueId x, const std::string& axis, Combine combine)
{
    return collective(OpKind::all_reduce, x, no_dim, 0, {.axis = axis, .combine = combine}, ".reduced");
}

ValueId Builder::exchange(Exchange kind, ValueId x, const std::string& axis, const std::vector<Box>& owned,
                          const std::vector<Box>& needed, const Shape& shape)
{
    static constexpr std::pair<OpKind, const char*> kinds[] = {
        {OpKind::all_to_all, ".exchanged"}, {OpKind::permute, ".permuted"}, {OpKind::halo, ".halo"}};
    const auto& [op_kind, suffix] = kinds[static_cast<int>(kind)];
    const auto numbers = [](const std::vector<Box>& boxes) {
        std::vector<i64> list;
        for (const Box& box : boxes) {
            list.insert(list.end(), box.offset.begin(), box.offset.end());
            list.insert(list.end(), box.shape.begin(), box.shape.end());
        }
        return list;
    };
    return op1(
        op_kind, {x},
        {.axis = axis,
         .lists = {{Attr::shape, shape}, {Attr::owned, numbers(owned)}, {Attr::needed, numbers(needed)}}},
        graph_[x].name + suffix);
}

ValueId Builder::part_at(ValueId x, const Box& part)
{
    std::vector<i64> limit = part.offset;
    for (std::size_t d = 0; d < limit.size(); ++d)
        limit[d] += part.shape[d];
    return op1(OpKind::slice, {x}, {.lists = {{Attr::start, part.offset}, {Attr::limit, limit}}},
               graph_[x].name + ".slice");
}

ValueId Builder::padded(ValueId x, const Shape& before, const Shape& shape)
{
    if (graph_[x].type.shape == shape)
        return x;
    Shape after = shape;
    for (std::size_t d = 0; d < shape.size(); ++d)
        after[d] -= before[d] + graph_[x].type.shape[d];
    return op1(OpKind::pad, {x}, {.value = 0.0, .lists = {{Attr::low, before}, {Attr::high, after}}},
               graph_[x].name + ".padded");
}

ValueId Builder::slice_of(ValueId x, std::size_t dim, IndexRange part)
{
    Box box{Shape(graph_[x].type.shape.size(), 0), graph_[x].type.shape};
    box.offset[dim] = part.begin;
    box.shape[dim] = part.size;
    return part_at(x, box);
}

std::vector<ValueId> Builder::divided(ValueId x, std::size_t dim, const std::vector<i64>& extents)
{
    const std::size_t dims = graph_[x].type.shape.size();
    Attributes attrs;
    Rule::Parts rule{{tensor_of(dims)}, {}, {str("x", dim)}};
    std::vector<std::string> names;
    for (std::size_t i = 0; i < extents.size(); ++i) {
        const std::string y = str("y", i);
        rule.results.push_back(tensor_of(dims, dim, "x", y));
        rule.replicated.push_back(y);
        attrs.sizes.push_back({y, extents[i]});
        names.push_back(str(graph_[x].name, ".part", i));
    }
    attrs.rule = Rule(std::move(rule));
    return op(OpKind::split, {x}, std::move(attrs), names);
}

ValueId Builder::joined(const std::vector<ValueId>& parts, std::size_t dim, const std::string& name)
{
    const std::size_t dims = graph_[parts.at(0)].type.shape.size();
    Rule::Parts rule{{}, {tensor_of(dims)}, {str("x", dim)}};
    i64 extent = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::string y = str("y", i);
        rule.operands.push_back(tensor_of(dims, dim, "x", y));
        rule.replicated.push_back(y);
        extent += graph_[parts[i]].type.shape[dim];
    }
    return op1(OpKind::concat, parts, {.rule = Rule(std::move(rule)), .sizes = {{str("x", dim), extent}}},
               name);
}

Op Builder::merged(const std::vector<Op>& collectives) const
{
    const auto reads = [&](const Op& reader) {
        return std::ranges::any_of(collectives,
                                   [&](const Op& op) { return op.results[0] == reader.operands[0]; });
    };
    TRV_EXPECT(std::ranges::none_of(collectives, reads), "a member of a bucket reads another's result");
    Op all = collectives.front();
    all.operands.clear();
    all.results.clear();
    all.attrs.edit().dim.reset();
    all.attrs.edit().sizes.clear();
    Rule::Parts rule;
    std::vector<i64> dims;
    for (std::size_t i = 0; i < collectives.size(); ++i) {
        const Op& op = collectives[i];
        const std::size_t rank = graph_[op.operands[0]].type.shape.size(),
                          dim = op.attrs->dim ? static_cast<std::size_t>(op.attrs->dim->front()) : no_dim;
        const std::string x = str("x", i, "_"), y = str("y", i);
        rule.operands.push_back(tensor_of(rank, no_dim, x));
        rule.results.push_back(tensor_of(rank, dim, x, y));
        if (dim != no_dim) {
            dims.push_back(static_cast<i64>(dim));
            all.attrs.edit().sizes.push_back({y, graph_[op.results[0]].type.shape[dim]});
        }
        all.operands.push_back(op.operands[0]);
        all.results.push_back(op.results[0]);
    }
    all.attrs.edit().rule = Rule(std::move(rule));
    if (!dims.empty())
        all.attrs.edit().dim = std::move(dims);
    return all;
}

std::vector<ValueId> Builder::states_of(ValueId parameter, std::string_view update, const Sharding& sharding)
{
    const OpInfo* row = find_op(update);
    TRV_CHECK(row != nullptr && !row->states.empty(), "no op '", update, "' keeps states of parameters");
    const std::string name = graph_[parameter].name;
    std::vector<ValueId> states;
    for (const char* kind : row->states) {
        const ValueId state = value(str(kind, ".", name), graph_[parameter].type, Role::state, FillInit{0.0});
        graph_[state].sharding = sharding;
        graph_[state].state_of = {name, row->kind, static_cast<int>(states.size())};
        states.push_back(state);
    }
    return states;
}

void Builder::update(ValueId parameter, const std::vector<ValueId>& states, const UpdateInputs& inputs,
                     double weight_decay)
{
    std::vector<ValueId> updated{parameter};
    updated.insert(updated.end(), states.begin(), states.end());
    std::vector<ValueId> operands = updated;
    operands.insert(operands.end(), {inputs.gradient, inputs.factor, inputs.hyper});
    std::vector<std::string> names;
    for (const ValueId v : updated)
        names.push_back(graph_[v].name + "'");
    const OpKind kind = graph_[states.at(0)].state_of.update;
    const UpdateFactors& factors = graph_[parameter].factors;
    Attributes attributes{.weight_decay = weight_decay};
    if (factors.rate != 1)
        attributes.alpha = factors.rate;
    if (factors.eps != 1)
        attributes.beta = factors.eps;
    const std::vector<ValueId> results = op(kind, operands, attributes, names);
    for (std::size_t i = 0; i < updated.size(); ++i)
        graph_.carries.push_back({updated[i], results[i]});
}

ValueId Builder::momentum_of(ValueId state, ValueId gradient, ValueId factor, double momentum)
{
    const std::vector<ValueId> results =
        op(OpKind::nesterov, {state, gradient, factor}, {.momentum = momentum},
           {graph_[state].name + "'", graph_[state].name + ".direction"});
    graph_.carries.push_back({state, results[0]});
    return results[1];
}

ValueId Builder::squares_of_each(ValueId stack, const Rule& rule)
{
    return op1(OpKind::sum_squares, {stack}, {.rule = rule}, graph_[stack].name + ".squares");
}

ValueId Builder::normalised(ValueId x, ValueId squares, std::optional<Rule> rule)
{
    return op1(OpKind::unit_norm, {x, squares}, {.rule = std::move(rule)});
}

ValueId Builder::product_of(ValueId a, ValueId b, const Rule& rule)
{
    return op1(OpKind::matmul, {a, b}, {.rule = rule});
}

ValueId Builder::weighted(double alpha, ValueId a, double beta, ValueId b)
{
    return op1(OpKind::weighted_sum, {a, b}, {.alpha = alpha, .beta = beta});
}

ValueId Builder::descend(ValueId parameter, ValueId direction, ValueId hyper, double weight_decay,
                         double scale)
{
    const ValueId next = op1(OpKind::descent, {parameter, direction, hyper},
                             {.scale = scale, .weight_decay = weight_decay}, graph_[parameter].name + "'");
    graph_.carries.push_back({parameter, next});
    return next;
}

ValueId Builder::balance(ValueId parameter, ValueId counts, ValueId norm, double rate)
{
    const ValueId next =
        op1(OpKind::balance, {parameter, counts, norm}, {.rate = rate}, graph_[parameter].name + "'");
    graph_.carries.push_back({parameter, next});
    return next;
}

ValueId Builder::average(ValueId parameter, ValueId sum, ValueId norm, ValueId count, double decay)
{
    const ValueId next = op1(OpKind::moving_average, {parameter, sum, norm, count}, {.momentum = decay},
                             graph_[parameter].name + "'");
    graph_.carries.push_back({parameter, next});
    return next;
}

void Builder::average_weights(ValueId parameter, ValueId next, const Sharding& sharding, double decay)
{
    const ValueId state = states_of(parameter, "weight_average", sharding)[0];
    const ValueId changed =
        op1(OpKind::weight_average, {state, next}, {.momentum = decay}, graph_[state].name + "'");
    graph_.carries.push_back({state, changed});
}

} // namespace trivium
