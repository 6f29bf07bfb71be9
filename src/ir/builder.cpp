#include "ir/builder.hpp"

#include "base/check.hpp"

#include <algorithm>

namespace trivium {

std::string Builder::unique(const std::string& hint)
{
    const auto count_use = [&](const std::string& name) -> int {
        const auto at = std::lower_bound(used_.begin(), used_.end(), name,
                                         [](const auto& entry, const std::string& key) { return entry.first < key; });
        if (at != used_.end() && at->first == name)
            return ++at->second;
        used_.insert(at, {name, 0});
        return 0;
    };
    for (; seen_ < graph_.values.size(); ++seen_) // values that others added
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
    TRV_CHECK(!graph_.find(name), "two values are called '", name, "'");
    Value v;
    v.name = unique(name);
    v.type = std::move(type);
    v.role = role;
    v.init = std::move(init);
    switch (role) {
    case Role::parameter:
    case Role::state:
    case Role::constant: v.lifetime = Lifetime::run; break;
    case Role::carry:
    case Role::hyper: v.lifetime = Lifetime::step; break;
    case Role::input:
    case Role::computed: v.lifetime = Lifetime::microbatch; break;
    }
    graph_.values.push_back(std::move(v));
    return ValueId(graph_.values.size() - 1);
}

std::vector<ValueId> Builder::op(OpKind kind, std::vector<ValueId> operands, Attrs attrs,
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
    const std::vector<TensorType> types = infer(graph_, made);
    const std::string prefix = where.scope.empty() ? "" : where.scope + ".";
    for (std::size_t i = 0; i < types.size(); ++i) {
        Value v;
        v.name = unique(i < names.size() && !names[i].empty() ? names[i] : prefix + info(kind).name);
        v.type = types[i];
        v.lifetime = result_lifetime(graph_, made, i);
        v.producer = OpId(graph_.ops.size());
        graph_.values.push_back(std::move(v));
        made.results.emplace_back(graph_.values.size() - 1);
    }
    graph_.ops.push_back(made);
    return graph_.ops.back().results;
}

ValueId Builder::op1(OpKind kind, std::vector<ValueId> operands, Attrs attrs, const std::string& name)
{
    const std::vector<ValueId> results = op(kind, std::move(operands), std::move(attrs), {name});
    TRV_CHECK(results.size() == 1, info(kind).name, " has ", results.size(), " results");
    return results[0];
}

ValueId Builder::sum_of(ValueId a, ValueId b) { return op1(OpKind::add, {a, b}); }

ValueId Builder::cast_to(ValueId x, DType dtype, const std::string& name)
{
    return op1(OpKind::cast, {x}, {{"dtype", std::string(name_of(dtype))}}, name);
}

ValueId Builder::filled_like(ValueId x, double fill_value) { return op1(OpKind::fill, {x}, {{"value", fill_value}}); }

ValueId Builder::squares_of(ValueId x) { return op1(OpKind::sum_squares, {x}, {}, graph_[x].name + ".squares"); }

ValueId Builder::add_into(ValueId into, ValueId x, bool only_reader)
{
    const OpId producer = graph_[x].producer;
    const bool fuse = only_reader && producer && producer.index() + 1 == graph_.ops.size() && info(graph_[producer]).accumulates &&
                      !graph_[producer].accumulate && graph_[producer].results.size() == 1;
    if (!fuse) {
        const ValueId sum = op1(OpKind::accumulate, {x});
        return add_into(into, sum);
    }
    Op& op = graph_.ops[producer.index()];
    op.operands.push_back(into);
    op.accumulate = true;
    graph_[x].type = graph_[into].type;
    graph_[x].lifetime = result_lifetime(graph_, op, 0);
    TRV_CHECK(infer(graph_, op)[0] == graph_[into].type, "accumulator ", graph_[into].name, " is ", graph_[into].type,
              ", its addend ", infer(graph_, op)[0]);
    return x;
}

ValueId Builder::norm_of(ValueId tokens, const std::vector<ValueId>& squares, double clip)
{
    std::vector<ValueId> operands{tokens};
    operands.insert(operands.end(), squares.begin(), squares.end());
    return op1(OpKind::global_norm, operands, {{"clip", clip}, {"w", i64{2}}}, "global_norm");
}

std::vector<ValueId> Builder::update(const std::vector<ValueId>& states, ValueId gradient, ValueId factor,
                                     ValueId hyper, double weight_decay)
{
    std::vector<ValueId> operands = states;
    operands.insert(operands.end(), {gradient, factor, hyper});
    std::vector<std::string> names;
    for (const ValueId s : states)
        names.push_back(graph_[s].name + "'");
    const std::vector<ValueId> results = op(OpKind::adamw, operands, {{"weight_decay", weight_decay}}, names);
    for (std::size_t i = 0; i < states.size(); ++i)
        graph_.carries.push_back({states[i], results[i]});
    return results;
}

} // namespace trivium
