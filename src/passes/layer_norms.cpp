#include "passes/layer_norms.hpp"

#include "base/check.hpp"
#include "ir/builder.hpp"
#include "ir/names.hpp"

#include <algorithm>

namespace trivium {

namespace {

/// A program of parameters, and of what is kept of them.
class NormGraph {
public:
    NormGraph(const Graph& train, const char* name) : train_(train)
    {
        graph_.name = name;
        graph_.mesh = train.mesh;
    }

    /// Calls visit(builder, parameter, before) for each trained parameter, in the block that updates it.
    template <class Visit>
    void for_each(const Visit& visit)
    {
        for (const std::string& name : norm_parameters(train_)) {
            const ValueId of_train = train_.find(name);
            const auto carry = std::ranges::find(train_.carries, of_train, &Carry::in);
            TRV_CHECK(carry != train_.carries.end(), "%", name, " is not updated");
            b_.where = {Region::epilogue, Phase::update, train_[train_[carry->out].producer].block, ""};
            const ValueId parameter = b_.value(name, train_[of_train].type, Role::parameter),
                          before =
                              b_.value("last." + name, train_[of_train].type, Role::state, FillInit{0.0});
            graph_[parameter].init = train_[of_train].init;
            graph_[parameter].sharding = graph_[before].sharding = train_[of_train].sharding;
            visit(b_, parameter, before);
        }
    }

    Builder& build() { return b_; }
    Graph finish() { return std::move(graph_); }
    Graph& graph() { return graph_; }

private:
    const Graph& train_;
    Graph graph_;
    Builder b_{graph_};
};

} // namespace

std::vector<std::string> norm_parameters(const Graph& train)
{
    std::vector<std::string> names;
    for (const ValueId p : train.with_role(Role::parameter))
        if (is_trained(train[p]) && train.find(value_name::reduced_gradient + train[p].name))
            names.push_back(train[p].name);
    return names;
}

NormPrograms norm_programs(const Graph& train)
{
    NormGraph remember(train, "remember"), norms(train, "norms");
    remember.for_each([](Builder& b, ValueId parameter, ValueId before) { b.overwrite(before, parameter); });
    std::vector<ValueId> weights, changes;
    norms.for_each([&](Builder& b, ValueId parameter, ValueId before) {
        weights.push_back(b.squares_of(parameter));
        changes.push_back(b.squares_of_change(parameter, before));
    });
    weights.insert(weights.end(), changes.begin(), changes.end());
    norms.build().where = {Region::epilogue, Phase::update, 0, ""};
    norms.graph().outputs = {norms.build().stack_of(weights, value_name::norms)};
    return {remember.finish(), norms.finish()};
}

} // namespace trivium
