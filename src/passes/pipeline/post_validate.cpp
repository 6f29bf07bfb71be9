#include "passes/pipeline/post_validate.hpp"

#include "base/check.hpp"
#include "ir/builder.hpp"
#include "ir/names.hpp"

#include <algorithm>

namespace trivium {

namespace {

/// Copies ops of a graph into a new one, with the values that they use.
class Copy {
public:
    Copy(const Graph& from, const std::string& name) : from_(from), id_(from.values.size())
    {
        to_.name = name;
        to_.mesh = from.mesh;
        to_.at = from.at;
        to_.stage_of_block = from.stage_of_block;
    }

    /// The value in the new graph.
    ValueId of(ValueId old)
    {
        ValueId& id = id_[old.index()];
        return id ? id : id = add(from_[old]);
    }
    /// From now on `old` is this value of the new graph.
    void replace(ValueId old, ValueId by) { id_[old.index()] = by; }

    ValueId given(const Value& like, Role role, const std::string& name)
    {
        Value made = like;
        made.name = name;
        made.role = role;
        made.lifetime = lifetime_of(role);
        made.producer = {};
        made.sharding = {}; // a matter of this rank alone
        made.whole = {};
        made.init = Init(FillInit{0.0});
        made.update = {};
        made.state_of = {};
        return add(std::move(made));
    }

    void op(Op made, Region region)
    {
        for (ValueId& v : made.operands)
            v = of(v);
        std::vector<ValueId> results;
        for (const ValueId v : made.results) {
            results.push_back(add(from_[v]));
            to_[results.back()].producer = OpId(to_.ops.size());
            replace(v, results.back());
        }
        made.results = std::move(results);
        made.region = region;
        to_.ops.push_back(std::move(made));
    }

    /// Copies a value of the new graph over another one, as a part of `where`.
    void overwrite(ValueId into, ValueId value, const Op& where)
    {
        builder_.where = {Region::epilogue, Phase::update, where.block, where.scope};
        builder_.overwrite(into, value);
    }

    Graph finish()
    {
        for (const Carry& carry : from_.carries)
            if (id_[carry.in.index()] && id_[carry.out.index()])
                to_.carries.push_back({id_[carry.in.index()], id_[carry.out.index()]});
        return std::move(to_);
    }
    void rename(ValueId made, const std::string& name) { to_[made].name = name; }
    void output(ValueId old) { to_.outputs.push_back(of(old)); }

private:
    ValueId add(Value value)
    {
        to_.values.push_back(std::move(value));
        return ValueId(to_.values.size() - 1);
    }

    const Graph& from_;
    Graph to_;
    Builder builder_{to_};
    std::vector<ValueId> id_; ///< by old value; invalid: not copied
};

class PostValidation {
public:
    explicit PostValidation(const Graph& graph)
        : g_(graph), late_(graph.ops.size(), false), updates_(graph.ops.size(), false)
    {
        find_chain();
        find_update();
    }

    PostValidated run() { return {train(), validate(), restore(), redo()}; }

private:
    static constexpr const char *kept = "kept.", *before = "before.";

    /// The ops that compute the outputs from this rank's totals, and these totals.
    void find_chain()
    {
        own_ = *std::max_element(g_.outputs.begin(), g_.outputs.end(),
                                 [&](ValueId a, ValueId b) { return g_[a].producer < g_[b].producer; });
        const auto follows = [&](const Op& op) {
            return op.region == Region::epilogue && op.operands.size() == 1 && !info(op).contributes;
        };
        while (g_[own_].producer && follows(g_[g_[own_].producer])) {
            late_[g_[own_].producer.index()] = true;
            own_ = g_[g_[own_].producer].operands[0];
        }
        for (const ValueId v : g_.outputs)
            TRV_CHECK(v == own_ || late_[g_[v].producer.index()], "%", g_[v].name,
                      " is not computed from this rank's totals");
    }

    /// The ops that wait for one of the chain's results.
    void find_update()
    {
        for (std::size_t i = 0; i < g_.ops.size(); ++i) {
            if (late_[i])
                continue;
            for (const ValueId v : g_.ops[i].operands) {
                const OpId producer = g_[v].producer;
                if (!producer || !(late_[producer.index()] || updates_[producer.index()]))
                    continue;
                updates_[i] = true;
                if (!late_[producer.index()])
                    continue;
                TRV_CHECK(!decided_ || decided_ == v, "the update reads two of the outputs");
                decided_ = v;
            }
        }
    }

    void copy_chain(Copy& copy, Region region) const
    {
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            if (late_[i])
                copy.op(g_.ops[i], region);
        for (const ValueId v : g_.outputs)
            copy.output(v);
    }

    void assume(Copy& copy) const
    {
        if (decided_) // otherwise this rank trains nothing
            copy.replace(decided_, copy.given(g_[decided_], Role::hyper, value_name::assumed));
    }

    /// What the op overwrites although it outlives the step.
    std::vector<ValueId> overwritten(const Op& op) const
    {
        std::vector<ValueId> values;
        for (std::size_t r = 0; r < op.results.size(); ++r)
            if (const ValueId into = aliased_operand(op, r); into && g_[into].lifetime == Lifetime::run)
                values.push_back(into);
        return values;
    }
    /// What the update reads, and the rest of the step computes.
    bool is_handed_over(ValueId v) const
    {
        return g_[v].role == Role::computed && v != decided_ && !updates_[g_[v].producer.index()];
    }

    Graph train() const
    {
        Copy copy(g_, g_.name);
        const auto copy_rest_of = [&](Region region) {
            for (std::size_t i = 0; i < g_.ops.size(); ++i)
                if (g_.ops[i].region == region && !late_[i] && !updates_[i])
                    copy.op(g_.ops[i], region);
        };
        copy_rest_of(Region::prologue);
        const ValueId totals = copy.given(g_[own_], Role::kept, g_[own_].name);
        copy.replace(own_, totals);
        copy_chain(copy, Region::prologue);
        copy_rest_of(Region::microbatch);
        copy_rest_of(Region::epilogue);
        copy.rename(copy.of(own_), g_[own_].name + ".own");
        copy.overwrite(totals, copy.of(own_), g_[g_[own_].producer]);
        assume(copy);
        std::vector<bool> keeps(g_.values.size(), false);
        for (std::size_t i = 0; i < g_.ops.size(); ++i) {
            if (!updates_[i])
                continue;
            const Op& op = g_.ops[i];
            const auto keep = [&](ValueId v, const std::string& prefix) {
                if (keeps[v.index()])
                    return;
                keeps[v.index()] = true;
                const ValueId into = copy.given(g_[v], Role::kept, prefix + g_[v].name);
                copy.overwrite(into, copy.of(v), op);
            };
            for (const ValueId v : op.operands)
                if (is_handed_over(v))
                    keep(v, kept);
            for (const ValueId v : overwritten(op))
                keep(v, before);
            copy.op(op, op.region);
        }
        return copy.finish();
    }

    Graph validate() const
    {
        Copy copy(g_, "validate");
        copy.replace(own_, copy.given(g_[own_], Role::kept, g_[own_].name));
        copy_chain(copy, Region::epilogue);
        return copy.finish();
    }

    Graph restore() const
    {
        Copy copy(g_, "restore");
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            if (updates_[i])
                for (const ValueId v : overwritten(g_.ops[i]))
                    copy.overwrite(copy.of(v), copy.given(g_[v], Role::kept, before + g_[v].name), g_.ops[i]);
        return copy.finish();
    }

    Graph redo() const
    {
        Copy copy(g_, "redo");
        assume(copy);
        std::vector<bool> keeps(g_.values.size(), false);
        for (std::size_t i = 0; i < g_.ops.size(); ++i) {
            if (!updates_[i])
                continue;
            for (const ValueId v : g_.ops[i].operands)
                if (is_handed_over(v) && !keeps[v.index()]) {
                    keeps[v.index()] = true;
                    copy.replace(v, copy.given(g_[v], Role::kept, kept + g_[v].name));
                }
            copy.op(g_.ops[i], g_.ops[i].region);
        }
        return copy.finish();
    }

    const Graph& g_;
    std::vector<bool> late_;    ///< by op: of the chain
    std::vector<bool> updates_; ///< by op
    ValueId own_;               ///< this rank's totals
    ValueId decided_; ///< the chain's result for which the update waits; invalid: there is no update
};

} // namespace

PostValidated post_validate(const Graph& local) { return PostValidation(local).run(); }

} // namespace trivium
